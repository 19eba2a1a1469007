// Encoding and decoding, and the copy of the same f32 bytes that they are measured against.
#include <cstring>
#include <vector>

#include "bench/random_values.h"
#include "benchmark/benchmark.h"
#include "quant/encode.h"
#include "quant/encode_kernel.h"
#include "quant/pack.h"
#include "quant/rotate.h"

namespace needle::bench {
namespace {

using format::Width;

constexpr size_t kEncodeCols = 768;
constexpr size_t kEncodeRows = 8192;  // 25 MB: beyond the caches that belong to one core
constexpr size_t kWeights = kEncodeRows * kEncodeCols;

const std::vector<float>& Weights() {
  static const std::vector<float> weights = Gaussian(kWeights, 0.02F);
  return weights;
}

void CountBytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(kWeights * sizeof(float)));
}

void BM_Memcpy(benchmark::State& state) {
  const std::vector<float>& weights = Weights();
  std::vector<float> copy(kWeights);
  for (auto _ : state) {
    std::memcpy(copy.data(), weights.data(), kWeights * sizeof(float));
    benchmark::ClobberMemory();
  }
  CountBytes(state);
}
BENCHMARK(BM_Memcpy);

void BM_Rotate(benchmark::State& state) {
  std::vector<float> values = Weights();
  for (auto _ : state) {
    quant::Rotate(values, 128);
    benchmark::ClobberMemory();
  }
  CountBytes(state);
}
BENCHMARK(BM_Rotate);

// A whole matrix by one twin of the encoder.
void Encode(benchmark::State& state, size_t (*kernel)(const quant::EncodeJob&, quant::EncodeStats&),
            Width width) {
  const auto layout = *format::CqLayout::Make(kEncodeRows, kEncodeCols, 128, width);
  const quant::Codebook codebook = quant::Codebook::Standard(width);
  std::vector<uint8_t> indices(layout.norms_offset);
  std::vector<uint16_t> norms(kEncodeRows * layout.groups);
  const std::vector<float>& weights = Weights();
  for (auto _ : state) {
    quant::EncodeStats stats;
    kernel({weights, kEncodeRows, kEncodeCols, layout.groups, layout.row_bytes, &codebook, indices,
            norms},
           stats);
    benchmark::DoNotOptimize(stats);
  }
  CountBytes(state);
}
BENCHMARK_CAPTURE(Encode, binary, quant::EncodeGroupsSimd, Width::kBinary);
BENCHMARK_CAPTURE(Encode, ternary, quant::EncodeGroupsSimd, Width::kTernary);
BENCHMARK_CAPTURE(Encode, cq2, quant::EncodeGroupsSimd, Width::kCq2);
BENCHMARK_CAPTURE(Encode, cq3, quant::EncodeGroupsSimd, Width::kCq3);
BENCHMARK_CAPTURE(Encode, cq4, quant::EncodeGroupsSimd, Width::kCq4);
BENCHMARK_CAPTURE(Encode, cq2_portable, quant::EncodeGroupsPortable, Width::kCq2);
BENCHMARK_CAPTURE(Encode, cq4_portable, quant::EncodeGroupsPortable, Width::kCq4);

// The search alone, by the specification's rule; EncodeGroupsSimd has its own.
void BM_Nearest(benchmark::State& state, Width width) {
  const quant::Codebook codebook = quant::Codebook::Standard(width);
  const std::vector<float>& weights = Weights();
  for (auto _ : state) {
    uint32_t sum = 0;
    for (const float weight : weights) sum += codebook.Nearest(weight);
    benchmark::DoNotOptimize(sum);
  }
  CountBytes(state);
}
BENCHMARK_CAPTURE(BM_Nearest, cq2, Width::kCq2);
BENCHMARK_CAPTURE(BM_Nearest, cq4, Width::kCq4);

void BM_PackRow(benchmark::State& state, Width width) {
  std::vector<uint8_t> codes = Bytes(kWeights);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(code % format::NumLevels(width));
  std::vector<uint8_t> packed(kWeights / 8 * format::StoredBits(width));
  for (auto _ : state) {
    quant::PackRow(width, codes, packed);
    benchmark::ClobberMemory();
  }
  CountBytes(state);
}
BENCHMARK_CAPTURE(BM_PackRow, cq2, Width::kCq2);
BENCHMARK_CAPTURE(BM_PackRow, cq3, Width::kCq3);
BENCHMARK_CAPTURE(BM_PackRow, cq4, Width::kCq4);

void BM_Decode(benchmark::State& state, Width width) {
  const auto layout = *format::CqLayout::Make(kEncodeRows, kEncodeCols, 128, width);
  const quant::Codebook codebook = quant::Codebook::Standard(width);
  const std::vector<uint8_t> indices = Bytes(layout.norms_offset);
  const std::vector<uint8_t> norms(kEncodeRows * layout.groups * 2, 0x30);  // 0.13
  format::CqView view;
  view.width = width;
  view.group = 128;
  view.layout = layout;
  view.indices = indices;
  view.norms = norms;
  std::vector<float> weights(kWeights);
  for (auto _ : state) {
    benchmark::DoNotOptimize(quant::DecodeRows(view, codebook, 0, kEncodeRows, weights).ok());
  }
  CountBytes(state);
}
BENCHMARK_CAPTURE(BM_Decode, binary, Width::kBinary);
BENCHMARK_CAPTURE(BM_Decode, ternary, Width::kTernary);
BENCHMARK_CAPTURE(BM_Decode, cq2, Width::kCq2);
BENCHMARK_CAPTURE(BM_Decode, cq3, Width::kCq3);
BENCHMARK_CAPTURE(BM_Decode, cq4, Width::kCq4);

}  // namespace
}  // namespace needle::bench
