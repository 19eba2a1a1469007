// Integer products straight from packed indices, against the copy of the same packed bytes.
// `items_per_second` counts weights times vectors.
#include <cstring>
#include <vector>

#include "bench/random_values.h"
#include "benchmark/benchmark.h"
#include "quant/codebook.h"
#include "quant/kernel.h"
#include "quant/multiply_kernel.h"

namespace needle::bench {
namespace {

using format::Width;
using quant::KernelMatrix;
using quant::QuantizedActivations;

constexpr size_t kMultiplyCols = 768;
constexpr size_t kMultiplyRows = 65536;  // 50 million weights, as a whole model

struct Matrix {
  explicit Matrix(Width width)
      : codebook(quant::Codebook::Standard(width)),
        indices(
            Bytes(format::CqLayout::Make(kMultiplyRows, kMultiplyCols, 128, width)->norms_offset)),
        norms(kMultiplyRows * (kMultiplyCols / 128) * 2, 0x30) {
    view.width = width;
    view.group = 128;
    view.layout = *format::CqLayout::Make(kMultiplyRows, kMultiplyCols, 128, width);
    view.indices = indices;
    view.norms = norms;
    view.codebook = codebook.entries();
    kernel = *KernelMatrix::Make(view);
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  quant::Codebook codebook;
  std::vector<uint8_t> indices;
  std::vector<uint8_t> norms;
  format::CqView view;
  KernelMatrix kernel;
};

void BM_MemcpyPacked(benchmark::State& state) {
  const std::vector<uint8_t> packed = Bytes(kMultiplyRows * (kMultiplyCols / 128) * 34);
  std::vector<uint8_t> copy(packed.size());
  for (auto _ : state) {
    std::memcpy(copy.data(), packed.data(), packed.size());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(kMultiplyRows * kMultiplyCols));
}
BENCHMARK(BM_MemcpyPacked);

void Multiply(benchmark::State& state, void (*kernel)(const quant::MultiplyJob&), Width width) {
  const Matrix matrix(width);
  const auto count = static_cast<size_t>(state.range(0));
  const size_t rows = kMultiplyRows / static_cast<size_t>(state.range(1));
  QuantizedActivations x;
  x.Assign(Gaussian(count * kMultiplyCols, 1), count, kMultiplyCols, 128);
  std::vector<float> y(count * kMultiplyRows);
  for (auto _ : state) {
    kernel({&matrix.kernel, &x, 0, rows, y, kMultiplyRows});
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(rows * kMultiplyCols * count));
}
// Vectors, and the part of the rows (1/n): a slow kernel gets fewer.
#define NEEDLE_BENCH_WIDTH(name, width)                                \
  BENCHMARK_CAPTURE(Multiply, vnni_##name, quant::MultiplyVnni, width) \
      ->Args({1, 1})                                                   \
      ->Args({64, 16});                                                \
  BENCHMARK_CAPTURE(Multiply, simd_##name, quant::MultiplySimd, width)->Args({1, 8})->Args({64, 64})
NEEDLE_BENCH_WIDTH(binary, Width::kBinary);
NEEDLE_BENCH_WIDTH(ternary, Width::kTernary);
NEEDLE_BENCH_WIDTH(cq2, Width::kCq2);
NEEDLE_BENCH_WIDTH(cq3, Width::kCq3);
NEEDLE_BENCH_WIDTH(cq4, Width::kCq4);
BENCHMARK_CAPTURE(Multiply, portable_cq2, quant::MultiplyPortable, Width::kCq2)->Args({1, 64});

void BM_QuantizeActivations(benchmark::State& state) {
  const std::vector<float> values = Gaussian(64 * kMultiplyCols, 1);
  QuantizedActivations x;
  for (auto _ : state) {
    x.Assign(values, 64, kMultiplyCols, 128);
    benchmark::DoNotOptimize(x);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(values.size()));
}
BENCHMARK(BM_QuantizeActivations);

}  // namespace
}  // namespace needle::bench
