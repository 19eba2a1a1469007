// quant/multiply_kernel.h: the inner loops of kernel.h, once portable and once vectorised; both
// give the same bits. For kernel.cc, tests and benchmarks.
#ifndef NEEDLE_QUANT_MULTIPLY_KERNEL_H_
#define NEEDLE_QUANT_MULTIPLY_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/kernel.h"

namespace needle::quant {

// Arguments of KernelMatrix::Multiply.
struct MultiplyJob {
  const KernelMatrix* matrix = nullptr;
  const QuantizedActivations* x = nullptr;
  size_t first = 0;
  size_t count = 0;
  std::span<float> y;
  size_t y_stride = 0;
};

void MultiplyPortable(const MultiplyJob& job);
int32_t GroupDotPortable(const KernelMatrix& matrix, const QuantizedActivations& x, size_t vector,
                         size_t row, size_t group);

// Rotates one group in place, writes its int8 values and returns its scale.
float QuantizeGroupPortable(std::span<float> group, std::span<int8_t> values);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_MULTIPLY_KERNEL_H_
