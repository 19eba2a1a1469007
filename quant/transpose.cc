#include "quant/transpose.h"

#include "quant/simd.h"
#include "quant/transpose_kernel.h"

namespace needle::quant {

size_t SourceBytes(SourceType type) {
  if (type == SourceType::kF32) return 4;
  return type == SourceType::kF64 ? 8 : 2;
}

void ConvertToF32(std::span<const uint8_t> source, SourceType type, std::span<float> values) {
  (UsePortable() ? ConvertPortable : ConvertSimd)(source, type, values);
}

void TransposeToF32(std::span<const uint8_t> source, SourceType type, size_t rows, size_t cols,
                    size_t first, size_t count, std::span<float> values) {
  const TransposeJob job = {source, type, rows, cols, first, count, values};
  (UsePortable() ? TransposePortable : TransposeSimd)(job);
}

}  // namespace needle::quant
