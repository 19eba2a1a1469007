#include <algorithm>

#include "base/endian.h"
#include "base/half.h"
#include "quant/decode_kernel.h"
#include "quant/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/decode_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "quant/pack-inl.h"
#include "quant/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {

#if NEEDLE_FIXED_LANES

// The entries of kLanes patterns.
template <uint32_t kBits>
HWY_INLINE Floats LookUpEntries(const float* HWY_RESTRICT table,
                                const uint8_t* HWY_RESTRICT patterns) {
  const FloatTag d;
  const IntTag di;
  const hn::Rebind<uint8_t, IntTag> d8;
  const Ints index = hn::PromoteTo(di, hn::LoadU(d8, patterns));
  if constexpr ((1U << kBits) <= kLanes) {
    return hn::TableLookupLanes(hn::Load(d, table), hn::IndicesFromVec(d, index));
  } else {
    return hn::GatherIndex(d, table, index);
  }
}

template <uint32_t kBits>
void DecodeRow(const DecodeJob& job, std::span<uint8_t> patterns, std::span<float> padded) {
  const FloatTag d;
  alignas(64) float table[16];
  std::copy(job.entries.begin(), job.entries.end(), table);
  // The whole row first: words just stored cannot be loaded as vectors without waiting for them.
  for (size_t i = 0; i < padded.size(); i += kSimdGroup) {
    UnpackGroup<kBits>(&job.packed[i / 8 * kBits], &patterns[i]);
  }
  const Floats scale = hn::Set(d, RotationScale(kSimdGroup));
  for (size_t i = 0; i < padded.size(); i += kSimdGroup) {
    const uint8_t* norm_bytes = &job.norms[2 * (i / kSimdGroup)];
    const Floats norm = hn::Set(d, base::F32FromF16(base::LoadLe<uint16_t>(norm_bytes)));
    Floats v[kVectors];
    NEEDLE_UNROLL(32)
    for (size_t k = 0; k < kVectors; ++k) {
      v[k] = hn::Mul(LookUpEntries<kBits>(table, &patterns[i + k * kLanes]), norm);
    }
    RotateVectors(v, scale);
    NEEDLE_UNROLL(32)
    for (size_t k = 0; k < kVectors; ++k) hn::StoreU(v[k], d, &padded[i + k * kLanes]);
  }
}

void DecodeRowOf(const DecodeJob& job, std::span<uint8_t> patterns, std::span<float> padded) {
  switch (format::StoredBits(job.width)) {
    case 1:
      return DecodeRow<1>(job, patterns, padded);
    case 2:
      return DecodeRow<2>(job, patterns, padded);
    case 3:
      return DecodeRow<3>(job, patterns, padded);
    default:
      return DecodeRow<4>(job, patterns, padded);
  }
}

#else

void DecodeRowOf(const DecodeJob& job, std::span<uint8_t> patterns, std::span<float> padded) {
  DecodeRowPortable(job, patterns, padded);
}

#endif  // NEEDLE_FIXED_LANES

}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace needle::quant {

HWY_EXPORT(DecodeRowOf);

void DecodeRowSimd(const DecodeJob& job, std::span<uint8_t> patterns, std::span<float> padded) {
  HWY_DYNAMIC_DISPATCH(DecodeRowOf)(job, patterns, padded);
}

}  // namespace needle::quant
#endif  // HWY_ONCE
