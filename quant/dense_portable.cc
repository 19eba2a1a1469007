#include "quant/dense_kernel.h"
#include "quant/simd.h"

namespace needle::quant {
namespace {

void AddProduct(const double* a, size_t a_stride, const double* b, size_t b_stride, size_t m,
                size_t k, size_t n, double* c, size_t c_stride) {
  for (size_t i = 0; i < m; ++i) {
    double* row = c + i * c_stride;
    for (size_t l = 0; l < k; ++l) {
      const double factor = a[i * a_stride + l];
      for (size_t j = 0; j < n; ++j) row[j] += factor * b[l * b_stride + j];
    }
  }
}

void AddScaled(const double* x, double s, double* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] += x[i] * s;
}

void SubtractOuter(const double* u, size_t n, const double* e, double* w) {
  for (size_t j = 0; j < n; ++j) {
    for (size_t c = 0; c < kCandidates; ++c) w[j * kCandidates + c] -= u[j] * e[c];
  }
}

constexpr DenseKernel kPortable = {
    .add_product = AddProduct,
    .add_scaled = AddScaled,
    .subtract_outer = SubtractOuter,
};

}  // namespace

const DenseKernel& PortableDense() { return kPortable; }

const DenseKernel& Dense() {
  static const DenseKernel& chosen = UsePortable() ? PortableDense() : SimdDense();
  return chosen;
}

}  // namespace needle::quant
