#include <span>

#include "quant/rotate.h"
#include "quant/rotate_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/rotate_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "quant/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {

#if NEEDLE_FIXED_LANES

// A group of 128 stays in registers.
void RotateSimdGroup(float* HWY_RESTRICT values, Floats scale) {
  const FloatTag d;
  Floats v[kVectors];
  NEEDLE_UNROLL(32)
  for (size_t i = 0; i < kVectors; ++i) v[i] = hn::LoadU(d, values + i * kLanes);
  RotateVectors(v, scale);
  NEEDLE_UNROLL(32)
  for (size_t i = 0; i < kVectors; ++i) hn::StoreU(v[i], d, values + i * kLanes);
}

// Other sizes of at least a vector: strides within vectors in one pass, then a pass a stride.
void RotateLongGroup(std::span<float> values, Floats scale) {
  const FloatTag d;
  for (size_t i = 0; i < values.size(); i += kLanes) {
    Floats v = hn::LoadU(d, &values[i]);
    v = ButterflyInLanes<0>(v);
    v = ButterflyInLanes<1>(v);
    if constexpr (kLanes > 4) v = ButterflyInLanes<2>(v);
    if constexpr (kLanes > 8) v = ButterflyInLanes<3>(v);
    hn::StoreU(v, d, &values[i]);
  }
  for (size_t stride = kLanes; stride < values.size(); stride *= 2) {
    for (size_t start = 0; start < values.size(); start += 2 * stride) {
      for (size_t i = start; i < start + stride; i += kLanes) {
        const Floats a = hn::LoadU(d, &values[i]);
        const Floats b = hn::LoadU(d, &values[i + stride]);
        hn::StoreU(hn::Add(a, b), d, &values[i]);
        hn::StoreU(hn::Sub(a, b), d, &values[i + stride]);
      }
    }
  }
  for (size_t i = 0; i < values.size(); i += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, &values[i]), scale), d, &values[i]);
  }
}

void RotateAll(std::span<float> values, uint32_t group) {
  if (group < kLanes) return RotatePortable(values, group);
  const Floats scale = hn::Set(FloatTag(), RotationScale(group));
  for (size_t start = 0; start < values.size(); start += group) {
    if (group == kSimdGroup) {
      RotateSimdGroup(&values[start], scale);
    } else {
      RotateLongGroup(values.subspan(start, group), scale);
    }
  }
}

#else

void RotateAll(std::span<float> values, uint32_t group) { RotatePortable(values, group); }

#endif  // NEEDLE_FIXED_LANES

}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace needle::quant {

HWY_EXPORT(RotateAll);

void RotateSimd(std::span<float> values, uint32_t group) {
  HWY_DYNAMIC_DISPATCH(RotateAll)(values, group);
}

}  // namespace needle::quant
#endif  // HWY_ONCE
