// engine/vector_ops.h: the loops over floats that all blocks are made of, once portable and once
// vectorised. Both give the same bits: the order of operations below is part of each contract, with
// f32 additions, multiplications, divisions and square roots only, never fused. Internal to
// engine/.
#ifndef NEEDLE_ENGINE_VECTOR_OPS_H_
#define NEEDLE_ENGINE_VECTOR_OPS_H_

#include <cstddef>
#include <cstdint>

namespace needle::engine {

// Outputs alias no inputs unless a comment says so. "16-lane sum": element i goes to partial sum
// i mod 16 in ascending order, all starting at 0; then p[j] += p[j+8], p[j+4], p[j+2], p[j+1].
struct VectorOps {
  // y[v * y_stride + r] = 16-lane sum of w[r] . x[v], for w [rows, cols] and x [count, cols].
  void (*multiply)(const float* w, size_t rows, size_t cols, const float* x, size_t count, float* y,
                   size_t y_stride);
  // c[m, n] = a[m, k] * b[k, n], or c += with `accumulate`: for each element terms in ascending k,
  // one after the other, starting from c or else from the first term. Strides are those of rows.
  void (*small_product)(const float* a, size_t a_stride, const float* b, size_t b_stride, size_t m,
                        size_t k, size_t n, bool accumulate, float* c, size_t c_stride);
  // The same with int8 b, each value exact in f32.
  void (*small_product_i8)(const float* a, size_t a_stride, const int8_t* b, size_t b_stride,
                           size_t m, size_t k, size_t n, bool accumulate, float* c,
                           size_t c_stride);

  float (*sum)(const float* x, size_t n);      // 16-lane sum
  float (*max)(const float* x, size_t n);      // n >= 1
  float (*max_abs)(const float* x, size_t n);  // 0 for n = 0

  void (*exp)(float* x, size_t n, float shift);  // x = e^(x - shift)
  void (*sigmoid)(float* x, size_t n);           // x = 1 / (1 + e^-x)
  void (*silu)(float* x, size_t n);              // x = x / (1 + e^-x)

  void (*scale)(const float* x, float s, float* y, size_t n);  // y = x * s; y may be x
  // y = (x * s) * g; y may be x
  void (*scale_gain)(const float* x, float s, const float* g, float* y, size_t n);
  void (*add_scaled)(const float* x, float s, float* y, size_t n);          // y += x * s
  void (*product)(const float* a, const float* b, float* y, size_t n);      // y = a * b; may alias
  void (*add_product)(const float* a, const float* b, float* y, size_t n);  // y += a * b
  // y = clamp(round-half-even(x / s), -128, 127); y may be x. The integer values as floats.
  void (*quantize)(const float* x, float s, float* y, size_t n);
};

const VectorOps& PortableOps();
// The vectorised twin for this machine; PortableOps() where there is none.
const VectorOps& SimdOps();
// SimdOps(), or PortableOps() when quant::UsePortable().
const VectorOps& Ops();

// e^x as every `exp` above computes it: within 2 ulp on [-87, 88], clamped outside; NaN stays NaN.
float Exp(float x);
inline float Sigmoid(float x) { return 1.0F / (1.0F + Exp(-x)); }

// 1 / sqrt(mean(x^2) + 1e-6), the factor of `norm` and `unit`.
float InverseRms(const float* x, size_t n);

// The specification's Q in place: s = max|x| / 127 (1 if 0), x = clamp(round(x / s)) * s.
void QuantizeInt8(float* x, size_t n);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_VECTOR_OPS_H_
