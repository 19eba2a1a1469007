#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "engine/exp_constants.h"
#include "engine/vector_ops.h"
#include "quant/simd.h"

namespace needle::engine {
namespace {

using Partials = std::array<float, 16>;

float Fold(Partials& p) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) p[j] += p[j + half];
  }
  return p[0];
}

// The last block is completed with zeros, as the vectorised twin's masked loads do.
float Dot(const float* a, const float* b, size_t n) {
  Partials p = {};
  for (size_t i = 0; i < n; i += 16) {
    for (size_t j = 0; j < 16; ++j) p[j] += i + j < n ? a[i + j] * b[i + j] : 0.0F;
  }
  return Fold(p);
}

void Multiply(const float* w, size_t rows, size_t cols, const float* x, size_t count, float* y,
              size_t y_stride) {
  for (size_t v = 0; v < count; ++v) {
    for (size_t r = 0; r < rows; ++r) y[v * y_stride + r] = Dot(w + r * cols, x + v * cols, cols);
  }
}

template <typename B>
void SmallProduct(const float* a, size_t a_stride, const B* b, size_t b_stride, size_t m, size_t k,
                  size_t n, bool accumulate, float* c, size_t c_stride) {
  for (size_t i = 0; i < m; ++i) {
    float* row = c + i * c_stride;
    for (size_t l = 0; l < k; ++l) {
      const float factor = a[i * a_stride + l];
      for (size_t j = 0; j < n; ++j) {
        const float term = factor * static_cast<float>(b[l * b_stride + j]);
        row[j] = l == 0 && !accumulate ? term : row[j] + term;
      }
    }
  }
}

float Sum(const float* x, size_t n) {
  Partials p = {};
  for (size_t i = 0; i < n; i += 16) {
    for (size_t j = 0; j < 16; ++j) p[j] += i + j < n ? x[i + j] : 0.0F;
  }
  return Fold(p);
}

float Max(const float* x, size_t n) { return *std::max_element(x, x + n); }

float MaxAbs(const float* x, size_t n) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

void ExpAll(float* x, size_t n, float shift) {
  for (size_t i = 0; i < n; ++i) x[i] = Exp(x[i] - shift);
}
void SigmoidAll(float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = Sigmoid(x[i]);
}
void Silu(float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] = x[i] / (1.0F + Exp(-x[i]));
}

void Scale(const float* x, float s, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = x[i] * s;
}
void ScaleGain(const float* x, float s, const float* g, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = (x[i] * s) * g[i];
}
void AddScaled(const float* x, float s, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] += x[i] * s;
}
void Product(const float* a, const float* b, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
}
void AddProduct(const float* a, const float* b, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] += a[i] * b[i];
}

void Quantize(const float* x, float s, float* y, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float rounded = (x[i] / s + kRoundMagic) - kRoundMagic;
    y[i] = std::min(std::max(rounded, -128.0F), 127.0F);
  }
}

constexpr VectorOps kPortable = {
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

}  // namespace

float Exp(float x) {
  if (!(x == x)) return x;
  const float clamped = std::min(std::max(x, kExpLow), kExpHigh);
  const float k = (clamped * kLog2E + kRoundMagic) - kRoundMagic;
  const float r = (clamped - k * kLn2High) - k * kLn2Low;
  float p = kExpP[0];
  for (size_t i = 1; i < 6; ++i) p = p * r + kExpP[i];
  const float e = ((p * (r * r)) + r) + 1.0F;
  return e * std::bit_cast<float>((static_cast<int32_t>(k) + 127) << 23);
}

float InverseRms(const float* x, size_t n) {
  float squares = 0;
  Ops().multiply(x, 1, n, x, 1, &squares, 1);
  return 1.0F / std::sqrt(squares / static_cast<float>(n) + 1e-6F);
}

void QuantizeInt8(float* x, size_t n) {
  const VectorOps& ops = Ops();
  const float largest = ops.max_abs(x, n);
  const float s = largest == 0.0F ? 1.0F : largest / 127.0F;
  ops.quantize(x, s, x, n);
  ops.scale(x, s, x, n);
}

const VectorOps& PortableOps() { return kPortable; }

const VectorOps& Ops() {
  static const VectorOps& chosen = quant::UsePortable() ? PortableOps() : SimdOps();
  return chosen;
}

}  // namespace needle::engine
