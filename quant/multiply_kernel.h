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
// The same bits; the matrix's group must be 128, and HasVnni() for the second.
void MultiplySimd(const MultiplyJob& job);
void MultiplyVnni(const MultiplyJob& job);
// Whether this machine has AVX-512 with VNNI and VBMI.
bool HasVnni();

int32_t GroupDotPortable(const KernelMatrix& matrix, const QuantizedActivations& x, size_t vector,
                         size_t row, size_t group);

// The scale of a group whose largest magnitude, rotated, is `largest`. A quotient that underflows
// to 0 counts as that of an all-zero group.
inline float ActivationScale(float largest) {
  const float scale = largest / 127.0F;
  return scale == 0.0F ? 1.0F : scale;
}

// Step 1 for one vector's group: rotates it in place, writes its int8 values, returns its scale.
float QuantizeGroupPortable(std::span<float> group, std::span<int8_t> values);
// The same bits for finite values; the group must be of 128.
float QuantizeGroupSimd(std::span<float> group, std::span<int8_t> values);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_MULTIPLY_KERNEL_H_
