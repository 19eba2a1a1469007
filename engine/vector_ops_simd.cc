// The vectorised twin of vector_ops_portable.cc, compiled once for each instruction set.
#include "engine/exp_constants.h"
#include "engine/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/vector_ops_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace needle::engine {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

const VectorOps* Table() { return &PortableOps(); }

#else

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that a block of 16 is a whole number of vectors.
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr size_t kLanes = hn::MaxLanes(D());
constexpr size_t kBlockVectors = 16 / kLanes;

// 16 partial sums.
struct Block {
  V v[kBlockVectors];
};

HWY_INLINE Block ZeroBlock() {
  Block block;
  for (V& v : block.v) v = hn::Zero(D());
  return block;
}

HWY_INLINE Block LoadBlock(const float* x) {
  Block block;
  for (size_t i = 0; i < kBlockVectors; ++i) block.v[i] = hn::LoadU(D(), x + i * kLanes);
  return block;
}

// The first n < 16 elements, then zeros.
HWY_INLINE Block LoadTail(const float* x, size_t n) {
  HWY_ALIGN float padded[16] = {};
  for (size_t i = 0; i < n; ++i) padded[i] = x[i];
  return LoadBlock(padded);
}

HWY_INLINE void AddProductBlock(const Block& a, const Block& b, Block& sum) {
  for (size_t i = 0; i < kBlockVectors; ++i) {
    sum.v[i] = hn::Add(sum.v[i], hn::Mul(a.v[i], b.v[i]));
  }
}

HWY_INLINE float Fold(const Block& block) {
  HWY_ALIGN float p[16];
  for (size_t i = 0; i < kBlockVectors; ++i) hn::Store(block.v[i], D(), p + i * kLanes);
  const hn::Full128<float> d4;
  using V4 = hn::Vec<decltype(d4)>;
  const V4 low = hn::Add(hn::Load(d4, p), hn::Load(d4, p + 8));
  const V4 high = hn::Add(hn::Load(d4, p + 4), hn::Load(d4, p + 12));
  const V4 four = hn::Add(low, high);
  const V4 two = hn::Add(four, hn::Shuffle1032(four));
  return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
}

// kRows rows times kVectors vectors at once, so that each loaded block is used several times.
template <size_t kRows, size_t kVectors>
HWY_INLINE void MultiplyTile(const float* w, size_t cols, const float* x, float* y,
                             size_t y_stride) {
  Block sums[kRows][kVectors];
  for (auto& row : sums) {
    for (Block& sum : row) sum = ZeroBlock();
  }
  const auto add = [&](auto load, size_t column) HWY_ATTR {
    Block xs[kVectors];
    for (size_t v = 0; v < kVectors; ++v) xs[v] = load(x + v * cols + column);
    for (size_t r = 0; r < kRows; ++r) {
      const Block row = load(w + r * cols + column);
      for (size_t v = 0; v < kVectors; ++v) AddProductBlock(row, xs[v], sums[r][v]);
    }
  };
  size_t column = 0;
  for (; column + 16 <= cols; column += 16) {
    add([](const float* p) HWY_ATTR { return LoadBlock(p); }, column);
  }
  if (column < cols) {
    const size_t rest = cols - column;
    add([rest](const float* p) HWY_ATTR { return LoadTail(p, rest); }, column);
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kVectors; ++v) y[v * y_stride + r] = Fold(sums[r][v]);
  }
}

template <size_t kVectors>
void MultiplyVectors(const float* w, size_t rows, size_t cols, const float* x, float* y,
                     size_t y_stride) {
  constexpr size_t kRows = kBlockVectors == 1 ? 4 : 2;
  size_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    MultiplyTile<kRows, kVectors>(w + r * cols, cols, x, y + r, y_stride);
  }
  for (; r < rows; ++r) MultiplyTile<1, kVectors>(w + r * cols, cols, x, y + r, y_stride);
}

void Multiply(const float* w, size_t rows, size_t cols, const float* x, size_t count, float* y,
              size_t y_stride) {
  constexpr size_t kVectors = kBlockVectors == 1 ? 4 : 2;
  size_t v = 0;
  for (; v + kVectors <= count; v += kVectors) {
    MultiplyVectors<kVectors>(w, rows, cols, x + v * cols, y + v * y_stride, y_stride);
  }
  for (; v < count; ++v)
    MultiplyVectors<1>(w, rows, cols, x + v * cols, y + v * y_stride, y_stride);
}

HWY_INLINE V LoadFloats(const float* x) { return hn::LoadU(D(), x); }
HWY_INLINE V LoadFloats(const int8_t* x) {
  const hn::Rebind<int32_t, D> d32;
  const hn::Rebind<int8_t, D> d8;
  return hn::ConvertTo(D(), hn::PromoteTo(d32, hn::LoadU(d8, x)));
}

// kRows rows of c by kColumns vectors of columns.
template <size_t kRows, size_t kColumns, typename B>
HWY_INLINE void ProductTile(const float* a, size_t a_stride, const B* b, size_t b_stride, size_t k,
                            bool accumulate, float* c, size_t c_stride) {
  const D d;
  V sums[kRows][kColumns];
  size_t l = 0;
  if (accumulate) {
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t j = 0; j < kColumns; ++j) {
        sums[i][j] = hn::LoadU(d, c + i * c_stride + j * kLanes);
      }
    }
  } else {
    for (size_t j = 0; j < kColumns; ++j) {
      const V column = LoadFloats(b + j * kLanes);
      for (size_t i = 0; i < kRows; ++i) {
        sums[i][j] = hn::Mul(hn::Set(d, a[i * a_stride]), column);
      }
    }
    l = 1;
  }
  for (; l < k; ++l) {
    V row[kColumns];
    for (size_t j = 0; j < kColumns; ++j) row[j] = LoadFloats(b + l * b_stride + j * kLanes);
    for (size_t i = 0; i < kRows; ++i) {
      const V factor = hn::Set(d, a[i * a_stride + l]);
      for (size_t j = 0; j < kColumns; ++j) {
        sums[i][j] = hn::Add(sums[i][j], hn::Mul(factor, row[j]));
      }
    }
  }
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      hn::StoreU(sums[i][j], d, c + i * c_stride + j * kLanes);
    }
  }
}

// One column of c, element by element: what is left of n.
template <typename B>
HWY_INLINE void ProductColumn(const float* a, size_t a_stride, const B* b, size_t b_stride,
                              size_t m, size_t k, bool accumulate, float* c, size_t c_stride) {
  for (size_t i = 0; i < m; ++i) {
    float sum = accumulate ? c[i * c_stride] : a[i * a_stride] * static_cast<float>(b[0]);
    for (size_t l = accumulate ? 0 : 1; l < k; ++l) {
      sum += a[i * a_stride + l] * static_cast<float>(b[l * b_stride]);
    }
    c[i * c_stride] = sum;
  }
}

template <size_t kColumns, typename B>
HWY_INLINE void ProductStripe(const float* a, size_t a_stride, const B* b, size_t b_stride,
                              size_t m, size_t k, bool accumulate, float* c, size_t c_stride) {
  size_t i = 0;
  for (; i + 4 <= m; i += 4) {
    ProductTile<4, kColumns>(a + i * a_stride, a_stride, b, b_stride, k, accumulate,
                             c + i * c_stride, c_stride);
  }
  if (i + 2 <= m) {
    ProductTile<2, kColumns>(a + i * a_stride, a_stride, b, b_stride, k, accumulate,
                             c + i * c_stride, c_stride);
    i += 2;
  }
  if (i < m) {
    ProductTile<1, kColumns>(a + i * a_stride, a_stride, b, b_stride, k, accumulate,
                             c + i * c_stride, c_stride);
  }
}

template <typename B>
void SmallProduct(const float* a, size_t a_stride, const B* b, size_t b_stride, size_t m, size_t k,
                  size_t n, bool accumulate, float* c, size_t c_stride) {
  if (k == 0) return;
  size_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    ProductStripe<2>(a, a_stride, b + j, b_stride, m, k, accumulate, c + j, c_stride);
  }
  if (j + kLanes <= n) {
    ProductStripe<1>(a, a_stride, b + j, b_stride, m, k, accumulate, c + j, c_stride);
    j += kLanes;
  }
  for (; j < n; ++j) {
    ProductColumn(a, a_stride, b + j, b_stride, m, k, accumulate, c + j, c_stride);
  }
}

float Sum(const float* x, size_t n) {
  Block sums = ZeroBlock();
  const auto add = [&sums](const Block& block) HWY_ATTR {
    for (size_t j = 0; j < kBlockVectors; ++j) sums.v[j] = hn::Add(sums.v[j], block.v[j]);
  };
  size_t i = 0;
  for (; i + 16 <= n; i += 16) add(LoadBlock(x + i));
  if (i < n) add(LoadTail(x + i, n - i));
  return Fold(sums);
}

float Max(const float* x, size_t n) {
  float largest = x[0];
  size_t i = 0;
  if (n >= kLanes) {
    V most = hn::LoadU(D(), x);
    for (i = kLanes; i + kLanes <= n; i += kLanes) most = hn::Max(most, hn::LoadU(D(), x + i));
    largest = hn::GetLane(hn::MaxOfLanes(D(), most));
  }
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

float MaxAbs(const float* x, size_t n) {
  V most = hn::Zero(D());
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) most = hn::Max(most, hn::Abs(hn::LoadU(D(), x + i)));
  float largest = hn::GetLane(hn::MaxOfLanes(D(), most));
  for (; i < n; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

HWY_INLINE V ExpVector(V x) {
  const D d;
  const hn::Rebind<int32_t, D> d32;
  const V magic = hn::Set(d, kRoundMagic);
  const V clamped = hn::Min(hn::Max(x, hn::Set(d, kExpLow)), hn::Set(d, kExpHigh));
  const V k = hn::Sub(hn::Add(hn::Mul(clamped, hn::Set(d, kLog2E)), magic), magic);
  const V r =
      hn::Sub(hn::Sub(clamped, hn::Mul(k, hn::Set(d, kLn2High))), hn::Mul(k, hn::Set(d, kLn2Low)));
  V p = hn::Set(d, kExpP[0]);
  for (size_t i = 1; i < 6; ++i) p = hn::Add(hn::Mul(p, r), hn::Set(d, kExpP[i]));
  const V e = hn::Add(hn::Add(hn::Mul(p, hn::Mul(r, r)), r), hn::Set(d, 1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(d32, k), hn::Set(d32, 127)));
  const V result = hn::Mul(e, hn::BitCast(d, exponent));
  return hn::IfThenElse(hn::Eq(x, x), result, x);
}

// y[i] = op(x[i]) in vectors; the rest goes through a padded vector, so that it is computed alike.
template <typename Op>
HWY_INLINE void Map(const float* x, float* y, size_t n, Op op) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(op(hn::LoadU(D(), x + i), i), D(), y + i);
  if (i == n) return;
  HWY_ALIGN float padded[kLanes] = {};
  for (size_t j = i; j < n; ++j) padded[j - i] = x[j];
  hn::Store(op(hn::Load(D(), padded), i), D(), padded);
  for (size_t j = i; j < n; ++j) y[j] = padded[j - i];
}

void ExpAll(float* x, size_t n, float shift) {
  const V offset = hn::Set(D(), shift);
  Map(x, x, n, [offset](V v, size_t) HWY_ATTR { return ExpVector(hn::Sub(v, offset)); });
}

HWY_INLINE V OnePlusExpNegative(V v) { return hn::Add(hn::Set(D(), 1.0F), ExpVector(hn::Neg(v))); }

void SigmoidAll(float* x, size_t n) {
  Map(x, x, n,
      [](V v, size_t) HWY_ATTR { return hn::Div(hn::Set(D(), 1.0F), OnePlusExpNegative(v)); });
}

void Silu(float* x, size_t n) {
  Map(x, x, n, [](V v, size_t) HWY_ATTR { return hn::Div(v, OnePlusExpNegative(v)); });
}

void Scale(const float* x, float s, float* y, size_t n) {
  const V factor = hn::Set(D(), s);
  Map(x, y, n, [factor](V v, size_t) HWY_ATTR { return hn::Mul(v, factor); });
}

void Quantize(const float* x, float s, float* y, size_t n) {
  const D d;
  const V step = hn::Set(d, s);
  const V magic = hn::Set(d, kRoundMagic);
  Map(x, y, n, [=](V v, size_t) HWY_ATTR {
    const V rounded = hn::Sub(hn::Add(hn::Div(v, step), magic), magic);
    return hn::Min(hn::Max(rounded, hn::Set(D(), -128.0F)), hn::Set(D(), 127.0F));
  });
}

// The loops over two or three arrays: whole vectors, then element by element in the same order of
// operations.
void ScaleGain(const float* x, float s, const float* g, float* y, size_t n) {
  const V factor = hn::Set(D(), s);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V scaled = hn::Mul(hn::LoadU(D(), x + i), factor);
    hn::StoreU(hn::Mul(scaled, hn::LoadU(D(), g + i)), D(), y + i);
  }
  for (; i < n; ++i) y[i] = (x[i] * s) * g[i];
}

void AddScaled(const float* x, float s, float* y, size_t n) {
  const V factor = hn::Set(D(), s);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V term = hn::Mul(hn::LoadU(D(), x + i), factor);
    hn::StoreU(hn::Add(hn::LoadU(D(), y + i), term), D(), y + i);
  }
  for (; i < n; ++i) y[i] += x[i] * s;
}

void Product(const float* a, const float* b, float* y, size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(D(), a + i), hn::LoadU(D(), b + i)), D(), y + i);
  }
  for (; i < n; ++i) y[i] = a[i] * b[i];
}

void AddProduct(const float* a, const float* b, float* y, size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V term = hn::Mul(hn::LoadU(D(), a + i), hn::LoadU(D(), b + i));
    hn::StoreU(hn::Add(hn::LoadU(D(), y + i), term), D(), y + i);
  }
  for (; i < n; ++i) y[i] += a[i] * b[i];
}

const VectorOps* Table() {
  static constexpr VectorOps kTable = {
      .multiply = Multiply,
      .small_product = SmallProduct<float>,
      .small_product_i8 = SmallProduct<int8_t>,
      .sum = Sum,
      .max = Max,
      .max_abs = MaxAbs,
      .exp = ExpAll,
      .sigmoid = SigmoidAll,
      .silu = Silu,
      .scale = Scale,
      .scale_gain = ScaleGain,
      .add_scaled = AddScaled,
      .product = Product,
      .add_product = AddProduct,
      .quantize = Quantize,
  };
  return &kTable;
}

#endif  // HWY_TARGET == HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace needle::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace needle::engine {

HWY_EXPORT(Table);

const VectorOps& SimdOps() {
  static const VectorOps& table = *HWY_DYNAMIC_DISPATCH(Table)();
  return table;
}

}  // namespace needle::engine
#endif  // HWY_ONCE
