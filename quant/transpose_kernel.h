// quant/transpose_kernel.h: the inner loops of transpose.h, once portable and once vectorised; both
// give the same bits. For transpose.cc, tests and benchmarks.
#ifndef NEEDLE_QUANT_TRANSPOSE_KERNEL_H_
#define NEEDLE_QUANT_TRANSPOSE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endian.h"
#include "base/half.h"
#include "quant/transpose.h"

namespace needle::quant {

// One source value.
template <SourceType kType>
float LoadSource(const uint8_t* bytes) {
  if constexpr (kType == SourceType::kF32) return base::LoadLe<float>(bytes);
  if constexpr (kType == SourceType::kF16) return base::F32FromF16(base::LoadLe<uint16_t>(bytes));
  if constexpr (kType == SourceType::kBf16) return base::F32FromBf16(base::LoadLe<uint16_t>(bytes));
  if constexpr (kType == SourceType::kF64) return static_cast<float>(base::LoadLe<double>(bytes));
}

// Arguments of TransposeToF32.
struct TransposeJob {
  std::span<const uint8_t> source;
  SourceType type = SourceType::kF32;
  size_t rows = 0;
  size_t cols = 0;
  size_t first = 0;
  size_t count = 0;
  std::span<float> values;
};

void ConvertPortable(std::span<const uint8_t> source, SourceType type, std::span<float> values);
void TransposePortable(const TransposeJob& job);
// The same bits.
void ConvertSimd(std::span<const uint8_t> source, SourceType type, std::span<float> values);
void TransposeSimd(const TransposeJob& job);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_TRANSPOSE_KERNEL_H_
