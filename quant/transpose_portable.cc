#include <algorithm>

#include "base/endian.h"
#include "base/half.h"
#include "quant/transpose_kernel.h"

namespace needle::quant {
namespace {

template <typename Value>
float ToF32(const uint8_t* bytes) {
  return static_cast<float>(base::LoadLe<Value>(bytes));
}
float F16ToF32(const uint8_t* bytes) { return base::F32FromF16(base::LoadLe<uint16_t>(bytes)); }
float Bf16ToF32(const uint8_t* bytes) { return base::F32FromBf16(base::LoadLe<uint16_t>(bytes)); }

float LoadSource(const uint8_t* bytes, SourceType type) {
  switch (type) {
    case SourceType::kF32:
      return ToF32<float>(bytes);
    case SourceType::kF16:
      return F16ToF32(bytes);
    case SourceType::kBf16:
      return Bf16ToF32(bytes);
    case SourceType::kF64:
      return ToF32<double>(bytes);
  }
  return 0;
}

}  // namespace

void ConvertPortable(std::span<const uint8_t> source, SourceType type, std::span<float> values) {
  const size_t bytes = SourceBytes(type);
  for (size_t i = 0; i < values.size(); ++i) values[i] = LoadSource(&source[i * bytes], type);
}

void TransposePortable(const TransposeJob& job) {
  const size_t bytes = SourceBytes(job.type);
  // Tiles of both sides that fit in the first cache level.
  constexpr size_t kTile = 32;
  for (size_t tile = 0; tile < job.rows; tile += kTile) {
    const size_t end = std::min(tile + kTile, job.rows);
    for (size_t c = 0; c < job.count; ++c) {
      for (size_t r = tile; r < end; ++r) {
        job.values[c * job.rows + r] =
            LoadSource(&job.source[(r * job.cols + job.first + c) * bytes], job.type);
      }
    }
  }
}

}  // namespace needle::quant
