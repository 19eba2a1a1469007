// quant/rotate-inl.h: the rotation of a group of 128 in vector registers, in the order of rotate.h.
// For sources that Highway compiles once for each target; include between its begin and end.

#if defined(NEEDLE_QUANT_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEEDLE_QUANT_ROTATE_INL_H_
#undef NEEDLE_QUANT_ROTATE_INL_H_
#else
#define NEEDLE_QUANT_ROTATE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/simd.h"
#include "quant/unroll.h"

// Kernels hold a group in an array of vectors, so they need vectors of a known size of at least 16
// bytes; elsewhere the portable twin runs.
#undef NEEDLE_FIXED_LANES
#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
#define NEEDLE_FIXED_LANES 0
#else
#define NEEDLE_FIXED_LANES 1
#endif

#if NEEDLE_FIXED_LANES
HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;
inline constexpr size_t kLanes = HWY_LANES(float);
inline constexpr size_t kVectors = kSimdGroup / kLanes;

// The value in lane i moves to lane i ^ kStride.
template <size_t kStride>
HWY_INLINE Floats SwapLanes(Floats v) {
  if constexpr (kStride == 1) return hn::Reverse2(FloatTag(), v);
  if constexpr (kStride == 2) return hn::Shuffle1032(v);
  if constexpr (kStride == 4) return hn::SwapAdjacentBlocks(v);
  if constexpr (kStride == 8) return hn::ConcatLowerUpper(FloatTag(), v, v);
}

// The sign bit in lanes i with i & kStride.
template <int kLog2Stride>
HWY_INLINE Floats UpperSigns() {
  const hn::RebindToUnsigned<FloatTag> unsigned_tag;
  const auto lanes = hn::Iota(unsigned_tag, 0);
  const auto bit = hn::And(lanes, hn::Set(unsigned_tag, 1U << kLog2Stride));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<31 - kLog2Stride>(bit));
}

// Pairs within a vector: a + b in the lower lane, a - b = a + (-b) in the upper.
template <int kLog2Stride>
HWY_INLINE Floats ButterflyInLanes(Floats v) {
  constexpr size_t kStride = size_t{1} << kLog2Stride;
  return hn::Add(SwapLanes<kStride>(v), hn::Xor(v, UpperSigns<kLog2Stride>()));
}

template <int kLog2Stride>
HWY_INLINE void ButterflyLanes(Floats* HWY_RESTRICT v) {
  if constexpr ((size_t{1} << kLog2Stride) < kLanes) {
    NEEDLE_UNROLL(32)
    for (size_t i = 0; i < kVectors; ++i) v[i] = ButterflyInLanes<kLog2Stride>(v[i]);
  }
}

// Pairs of whole vectors.
template <size_t kStride>
HWY_INLINE void ButterflyVectors(Floats* HWY_RESTRICT v) {
  if constexpr (kStride >= kLanes) {
    constexpr size_t kStep = kStride / kLanes;
    NEEDLE_UNROLL(16)
    for (size_t pair = 0; pair < kVectors / 2; ++pair) {
      const size_t i = pair / kStep * 2 * kStep + pair % kStep;
      const Floats a = v[i];
      const Floats b = v[i + kStep];
      v[i] = hn::Add(a, b);
      v[i + kStep] = hn::Sub(a, b);
    }
  }
}

// Rotates the kVectors vectors of one group; `scale` is RotationScale(kSimdGroup) in every lane.
HWY_INLINE void RotateVectors(Floats* HWY_RESTRICT v, Floats scale) {
  ButterflyLanes<0>(v);
  ButterflyLanes<1>(v);
  ButterflyLanes<2>(v);
  ButterflyLanes<3>(v);
  ButterflyVectors<4>(v);
  ButterflyVectors<8>(v);
  ButterflyVectors<16>(v);
  ButterflyVectors<32>(v);
  ButterflyVectors<64>(v);
  NEEDLE_UNROLL(32)
  for (size_t i = 0; i < kVectors; ++i) v[i] = hn::Mul(v[i], scale);
}

// Sums of squares as FoldPartials has them: element i of the group is in partial i mod 16.
class SquareSum {
 public:
  static constexpr size_t kParts = 16 / kLanes;

  HWY_INLINE SquareSum() {
    for (size_t i = 0; i < kParts; ++i) parts_[i] = hn::Zero(FloatTag());
  }
  // `index`: the number of the vector in the group.
  HWY_INLINE void Add(size_t index, Floats value) {
    Floats& part = parts_[index % kParts];
    part = hn::Add(part, hn::Mul(value, value));
  }
  HWY_INLINE float Total() const {
    alignas(64) float partials[16];
    for (size_t i = 0; i < kParts; ++i) hn::Store(parts_[i], FloatTag(), partials + i * kLanes);
    const hn::FixedTag<float, 4> four;
    const auto low = hn::Add(hn::Load(four, partials), hn::Load(four, partials + 8));
    const auto high = hn::Add(hn::Load(four, partials + 4), hn::Load(four, partials + 12));
    const auto quarter = hn::Add(low, high);
    const auto half = hn::Add(quarter, hn::Shuffle1032(quarter));
    return hn::GetLane(hn::Add(half, hn::Reverse2(four, half)));
  }

 private:
  Floats parts_[kParts];
};

}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();
#endif  // NEEDLE_FIXED_LANES

#endif  // NEEDLE_QUANT_ROTATE_INL_H_
