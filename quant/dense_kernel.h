// quant/dense_kernel.h: the inner loops of the f64 mathematics of calibration, once portable and
// once vectorised; both give the same bits: each element has its own chain of additions and
// multiplications in the order below, never fused. For quant/, tests and benchmarks.
#ifndef NEEDLE_QUANT_DENSE_KERNEL_H_
#define NEEDLE_QUANT_DENSE_KERNEL_H_

#include <cstddef>

namespace needle::quant {

// Candidates that run side by side through a group, in LDLQ's choice of norms.
inline constexpr size_t kCandidates = 8;

struct DenseKernel {
  // c[m, n] += a[m, k] * b[k, n]: terms in ascending k. Strides are those of rows. c aliases
  // nothing.
  void (*add_product)(const double* a, size_t a_stride, const double* b, size_t b_stride, size_t m,
                      size_t k, size_t n, double* c, size_t c_stride);
  // y += x * s
  void (*add_scaled)(const double* x, double s, double* y, size_t n);
  // w[j * kCandidates + c] -= u[j] * e[c] for j < n
  void (*subtract_outer)(const double* u, size_t n, const double* e, double* w);
};

const DenseKernel& PortableDense();
// The vectorised twin for this machine; PortableDense() where there is none.
const DenseKernel& SimdDense();
// SimdDense(), or PortableDense() when UsePortable().
const DenseKernel& Dense();

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_DENSE_KERNEL_H_
