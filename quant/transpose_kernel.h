// quant/transpose_kernel.h: the inner loops of transpose.h, once portable and once vectorised; both
// give the same bits. For transpose.cc, tests and benchmarks.
#ifndef NEEDLE_QUANT_TRANSPOSE_KERNEL_H_
#define NEEDLE_QUANT_TRANSPOSE_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/transpose.h"

namespace needle::quant {

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

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_TRANSPOSE_KERNEL_H_
