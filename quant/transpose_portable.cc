#include <algorithm>

#include "quant/transpose_kernel.h"

namespace needle::quant {
namespace {

template <SourceType kType>
void Convert(std::span<const uint8_t> source, std::span<float> values) {
  const size_t bytes = SourceBytes(kType);
  for (size_t i = 0; i < values.size(); ++i) values[i] = LoadSource<kType>(&source[i * bytes]);
}

template <SourceType kType>
void Transpose(const TransposeJob& job) {
  const size_t bytes = SourceBytes(kType);
  // Tiles of both sides that fit in the first cache level.
  constexpr size_t kTile = 32;
  for (size_t tile = 0; tile < job.rows; tile += kTile) {
    const size_t end = std::min(tile + kTile, job.rows);
    for (size_t c = 0; c < job.count; ++c) {
      for (size_t r = tile; r < end; ++r) {
        job.values[c * job.rows + r] =
            LoadSource<kType>(&job.source[(r * job.cols + job.first + c) * bytes]);
      }
    }
  }
}

}  // namespace

void ConvertPortable(std::span<const uint8_t> source, SourceType type, std::span<float> values) {
  switch (type) {
    case SourceType::kF32:
      return Convert<SourceType::kF32>(source, values);
    case SourceType::kF16:
      return Convert<SourceType::kF16>(source, values);
    case SourceType::kBf16:
      return Convert<SourceType::kBf16>(source, values);
    case SourceType::kF64:
      return Convert<SourceType::kF64>(source, values);
  }
}

void TransposePortable(const TransposeJob& job) {
  switch (job.type) {
    case SourceType::kF32:
      return Transpose<SourceType::kF32>(job);
    case SourceType::kF16:
      return Transpose<SourceType::kF16>(job);
    case SourceType::kBf16:
      return Transpose<SourceType::kBf16>(job);
    case SourceType::kF64:
      return Transpose<SourceType::kF64>(job);
  }
}

}  // namespace needle::quant
