// Products for machines without VNNI, and the quantisation of activations for all.
#include <algorithm>

#include "base/endian.h"
#include "base/half.h"
#include "quant/multiply_kernel.h"
#include "quant/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/multiply_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "quant/pack-inl.h"
#include "quant/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {

#if NEEDLE_FIXED_LANES

// The int8 entries of one group's weights.
template <uint32_t kBits>
HWY_INLINE void UnpackEntries(const uint8_t* HWY_RESTRICT packed, const int8_t* HWY_RESTRICT table,
                              int8_t* HWY_RESTRICT entries) {
  const hn::CappedTag<uint8_t, kSimdGroup> d;
  alignas(64) uint8_t patterns[kSimdGroup];
  UnpackGroup<kBits>(packed, patterns);
  const auto lookup = hn::LoadDup128(hn::RebindToSigned<decltype(d)>(), table);
#pragma GCC unroll 8
  for (size_t i = 0; i < kSimdGroup; i += hn::MaxLanes(d)) {
    hn::Store(hn::TableLookupBytes(lookup, hn::BitCast(hn::RebindToSigned<decltype(d)>(),
                                                       hn::Load(d, patterns + i))),
              hn::RebindToSigned<decltype(d)>(), entries + i);
  }
}

HWY_INLINE int32_t Dot(const int8_t* HWY_RESTRICT entries, const int8_t* HWY_RESTRICT values) {
  const hn::CappedTag<int16_t, 32> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  auto even = hn::Zero(d32);
  auto odd = hn::Zero(d32);
#pragma GCC unroll 16
  for (size_t i = 0; i < kSimdGroup; i += hn::MaxLanes(d16)) {
    const auto a = hn::PromoteTo(d16, hn::LoadU(d8, entries + i));
    const auto b = hn::PromoteTo(d16, hn::LoadU(d8, values + i));
    even = hn::ReorderWidenMulAccumulate(d32, a, b, even, odd);
  }
  return hn::GetLane(hn::SumOfLanes(d32, hn::Add(even, odd)));
}

template <uint32_t kBits>
void MultiplyBits(const MultiplyJob& job) {
  const auto& view = job.matrix->view();
  const QuantizedActivations& x = *job.x;
  const float table_scale = job.matrix->table_scale();
  alignas(64) int8_t entries[kSimdGroup];
  for (size_t row = job.first; row < job.first + job.count; ++row) {
    for (size_t v = 0; v < x.count(); ++v) job.y[v * job.y_stride + row] = 0;
    for (size_t group = 0; group < view.layout.groups; ++group) {
      const size_t number = row * view.layout.groups + group;
      UnpackEntries<kBits>(view.indices.data() + number * (kSimdGroup * kBits / 8),
                           job.matrix->table().data(), entries);
      const float norm = base::F32FromF16(base::LoadLe<uint16_t>(&view.norms[2 * number]));
      for (size_t v = 0; v < x.count(); ++v) {
        const int32_t dot = Dot(entries, x.values(v).data() + group * kSimdGroup);
        job.y[v * job.y_stride + row] +=
            static_cast<float>(dot) * norm * x.scales(v)[group] * table_scale;
      }
    }
  }
}

void MultiplyAll(const MultiplyJob& job) {
  switch (format::StoredBits(job.matrix->view().width)) {
    case 1:
      return MultiplyBits<1>(job);
    case 2:
      return MultiplyBits<2>(job);
    case 3:
      return MultiplyBits<3>(job);
    default:
      return MultiplyBits<4>(job);
  }
}

// One group of activations, all of it; returns its scale.
HWY_INLINE float QuantizeGroup(const float* HWY_RESTRICT group, int8_t* HWY_RESTRICT values) {
  const FloatTag d;
  const IntTag di;
  Floats v[kVectors];
#pragma GCC unroll 32
  for (size_t i = 0; i < kVectors; ++i) v[i] = hn::LoadU(d, group + i * kLanes);
  RotateVectors(v, hn::Set(d, RotationScale(kSimdGroup)));
  Floats largest = hn::Zero(d);
#pragma GCC unroll 32
  for (size_t i = 0; i < kVectors; ++i) largest = hn::Max(largest, hn::Abs(v[i]));
  const float scale = ActivationScale(hn::GetLane(hn::MaxOfLanes(d, largest)));
  const Floats divisor = hn::Set(d, scale);
  const hn::Rebind<int8_t, IntTag> d8;
#pragma GCC unroll 32
  for (size_t i = 0; i < kVectors; ++i) {
    // NearestInt rounds to nearest even.
    const Ints rounded = hn::NearestInt(hn::Div(v[i], divisor));
    const Ints limited = hn::Max(hn::Min(rounded, hn::Set(di, 127)), hn::Set(di, -127));
    hn::StoreU(hn::DemoteTo(d8, limited), d8, values + i * kLanes);
  }
  return scale;
}

void QuantizeAll(const QuantizeJob& job) {
  alignas(64) float padded[kSimdGroup] = {};
  for (size_t number = 0; number < job.scales.size(); ++number) {
    const auto group = GroupValues(job, number);
    const float* source = group.data();
    if (group.size() < kSimdGroup) {  // vectors are alike, so the rest stays zero
      std::copy(group.begin(), group.end(), padded);
      source = padded;
    }
    job.scales[number] = QuantizeGroup(source, job.values.data() + number * kSimdGroup);
  }
}

#else

void MultiplyAll(const MultiplyJob& job) { MultiplyPortable(job); }
void QuantizeAll(const QuantizeJob& job) { QuantizePortable(job); }

#endif  // NEEDLE_FIXED_LANES

}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace needle::quant {

HWY_EXPORT(MultiplyAll);
HWY_EXPORT(QuantizeAll);

void MultiplySimd(const MultiplyJob& job) { HWY_DYNAMIC_DISPATCH(MultiplyAll)(job); }

void QuantizeSimd(const QuantizeJob& job) { HWY_DYNAMIC_DISPATCH(QuantizeAll)(job); }

}  // namespace needle::quant
#endif  // HWY_ONCE
