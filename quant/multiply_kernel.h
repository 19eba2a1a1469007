// quant/multiply_kernel.h: the inner loops of kernel.h, once portable and once vectorised; both
// give the same bits. For kernel.cc, tests and benchmarks.
#ifndef NEEDLE_QUANT_MULTIPLY_KERNEL_H_
#define NEEDLE_QUANT_MULTIPLY_KERNEL_H_

#include <algorithm>
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

// Step 1 for whole vectors: `x` is [count, cols], `values` [count, padded cols], `scales`
// [count, groups].
struct QuantizeJob {
  std::span<const float> x;
  size_t count = 0;
  size_t cols = 0;
  uint32_t group = 0;
  std::span<int8_t> values;
  std::span<float> scales;
};

void QuantizePortable(const QuantizeJob& job);
// The same bits for finite values; the group must be of 128.
void QuantizeSimd(const QuantizeJob& job);

// The values of group `number` (vector * groups + group): fewer than a whole one at a vector's end.
inline std::span<const float> GroupValues(const QuantizeJob& job, size_t number) {
  const size_t groups = job.scales.size() / job.count;
  const size_t column = number % groups * job.group;
  return job.x.subspan(number / groups * job.cols + column,
                       std::min<size_t>(job.group, job.cols - column));
}

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_MULTIPLY_KERNEL_H_
