// The vectorised twin of dense_portable.cc, compiled once for each instruction set.
#include "quant/dense_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/dense_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR || !HWY_HAVE_FLOAT64

const DenseKernel* Table() { return &PortableDense(); }

#else

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kCandidates>;
using V = hn::Vec<D>;
constexpr size_t kLanes = hn::MaxLanes(D());
constexpr size_t kBlockVectors = kCandidates / kLanes;

// kRows rows of c by kColumns vectors of columns.
template <size_t kRows, size_t kColumns>
HWY_INLINE void ProductTile(const double* a, size_t a_stride, const double* b, size_t b_stride,
                            size_t k, double* c, size_t c_stride) {
  const D d;
  V sums[kRows][kColumns];
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) sums[i][j] = hn::LoadU(d, c + i * c_stride + j * kLanes);
  }
  for (size_t l = 0; l < k; ++l) {
    V row[kColumns];
    for (size_t j = 0; j < kColumns; ++j) row[j] = hn::LoadU(d, b + l * b_stride + j * kLanes);
    for (size_t i = 0; i < kRows; ++i) {
      const V factor = hn::Set(d, a[i * a_stride + l]);
      for (size_t j = 0; j < kColumns; ++j) {
        sums[i][j] = hn::Add(sums[i][j], hn::Mul(factor, row[j]));
      }
    }
  }
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) hn::StoreU(sums[i][j], d, c + i * c_stride + j * kLanes);
  }
}

template <size_t kColumns>
void ProductStripe(const double* a, size_t a_stride, const double* b, size_t b_stride, size_t m,
                   size_t k, double* c, size_t c_stride) {
  size_t i = 0;
  for (; i + 4 <= m; i += 4) {
    ProductTile<4, kColumns>(a + i * a_stride, a_stride, b, b_stride, k, c + i * c_stride,
                             c_stride);
  }
  for (; i < m; ++i) {
    ProductTile<1, kColumns>(a + i * a_stride, a_stride, b, b_stride, k, c + i * c_stride,
                             c_stride);
  }
}

void AddProduct(const double* a, size_t a_stride, const double* b, size_t b_stride, size_t m,
                size_t k, size_t n, double* c, size_t c_stride) {
  size_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    ProductStripe<2>(a, a_stride, b + j, b_stride, m, k, c + j, c_stride);
  }
  for (; j + kLanes <= n; j += kLanes) {
    ProductStripe<1>(a, a_stride, b + j, b_stride, m, k, c + j, c_stride);
  }
  if (j == n) return;
  PortableDense().add_product(a, a_stride, b + j, b_stride, m, k, n - j, c + j, c_stride);
}

void AddScaled(const double* x, double s, double* y, size_t n) {
  const D d;
  const V factor = hn::Set(d, s);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V term = hn::Mul(hn::LoadU(d, x + i), factor);
    hn::StoreU(hn::Add(hn::LoadU(d, y + i), term), d, y + i);
  }
  for (; i < n; ++i) y[i] += x[i] * s;
}

void SubtractOuter(const double* u, size_t n, const double* e, double* w) {
  const D d;
  V es[kBlockVectors];
  for (size_t i = 0; i < kBlockVectors; ++i) es[i] = hn::LoadU(d, e + i * kLanes);
  for (size_t j = 0; j < n; ++j) {
    const V factor = hn::Set(d, u[j]);
    for (size_t i = 0; i < kBlockVectors; ++i) {
      double* at = w + j * kCandidates + i * kLanes;
      hn::StoreU(hn::Sub(hn::LoadU(d, at), hn::Mul(factor, es[i])), d, at);
    }
  }
}

const DenseKernel* Table() {
  static constexpr DenseKernel kTable = {
      .add_product = AddProduct,
      .add_scaled = AddScaled,
      .subtract_outer = SubtractOuter,
  };
  return &kTable;
}

#endif  // HWY_TARGET == HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace needle::quant {

HWY_EXPORT(Table);

const DenseKernel& SimdDense() {
  static const DenseKernel& table = *HWY_DYNAMIC_DISPATCH(Table)();
  return table;
}

}  // namespace needle::quant
#endif  // HWY_ONCE
