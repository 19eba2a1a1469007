// Transposes and conversions of checkpoint values, against the copy of the same source bytes.
#include <cstring>
#include <vector>

#include "bench/random_values.h"
#include "benchmark/benchmark.h"
#include "quant/transpose.h"

namespace needle::bench {
namespace {

using quant::SourceType;

constexpr size_t kTransposeRows = 768;   // a kernel's inputs
constexpr size_t kTransposeCols = 8192;  // its outputs: 25 MB in f32
constexpr size_t kTile = 64;             // columns that one call turns into rows

void CountBytes(benchmark::State& state, SourceType type) {
  const size_t bytes = kTransposeRows * kTransposeCols * quant::SourceBytes(type);
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
}

// By tiles into one small buffer, as a build does it.
void BM_Transpose(benchmark::State& state, SourceType type) {
  const std::vector<uint8_t> source(kTransposeRows * kTransposeCols * quant::SourceBytes(type),
                                    0x3C);
  std::vector<float> rows(kTile * kTransposeRows);
  for (auto _ : state) {
    for (size_t first = 0; first < kTransposeCols; first += kTile) {
      quant::TransposeToF32(source, type, kTransposeRows, kTransposeCols, first, kTile, rows);
      benchmark::ClobberMemory();
    }
  }
  CountBytes(state, type);
}
BENCHMARK_CAPTURE(BM_Transpose, f32, SourceType::kF32);
BENCHMARK_CAPTURE(BM_Transpose, f16, SourceType::kF16);
BENCHMARK_CAPTURE(BM_Transpose, bf16, SourceType::kBf16);
BENCHMARK_CAPTURE(BM_Transpose, f64, SourceType::kF64);

void BM_Convert(benchmark::State& state, SourceType type) {
  const size_t count = kTile * kTransposeRows;
  const std::vector<uint8_t> source(kTransposeRows * kTransposeCols * quant::SourceBytes(type),
                                    0x3C);
  std::vector<float> values(count);
  const size_t bytes = count * quant::SourceBytes(type);
  for (auto _ : state) {
    for (size_t i = 0; i < kTransposeCols / kTile; ++i) {
      quant::ConvertToF32(std::span(source).subspan(i * bytes, bytes), type, values);
      benchmark::ClobberMemory();
    }
  }
  CountBytes(state, type);
}
BENCHMARK_CAPTURE(BM_Convert, f32, SourceType::kF32);
BENCHMARK_CAPTURE(BM_Convert, f16, SourceType::kF16);
BENCHMARK_CAPTURE(BM_Convert, bf16, SourceType::kBf16);
BENCHMARK_CAPTURE(BM_Convert, f64, SourceType::kF64);

}  // namespace
}  // namespace needle::bench
