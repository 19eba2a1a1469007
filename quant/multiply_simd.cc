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

// Groups of a row that are unpacked at a time: words just stored cannot be loaded as vectors
// without waiting for them, so the loads come well after the stores.
constexpr size_t kChunk = 8;

// The int8 entries of `count` groups.
template <uint32_t kBits>
HWY_INLINE void UnpackEntries(const uint8_t* HWY_RESTRICT packed, size_t count,
                              const int8_t* HWY_RESTRICT table, int8_t* HWY_RESTRICT entries) {
  const hn::CappedTag<int8_t, kSimdGroup> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  alignas(64) uint8_t patterns[kChunk * kSimdGroup];
  for (size_t i = 0; i < count; ++i) {
    UnpackGroup<kBits>(packed + i * kSimdGroup / 8 * kBits, patterns + i * kSimdGroup);
  }
  const auto lookup = hn::LoadDup128(d, table);
  for (size_t i = 0; i < count * kSimdGroup; i += hn::MaxLanes(d)) {
    const auto index = hn::BitCast(d, hn::Load(du, patterns + i));
    hn::Store(hn::TableLookupBytes(lookup, index), d, entries + i);
  }
}

HWY_INLINE int32_t Dot(const int8_t* HWY_RESTRICT entries, const int8_t* HWY_RESTRICT values) {
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  // Pairs of |entry| * (value with the entry's sign): at most 2 * 127 * 127, which fits in 16 bits.
  const hn::FixedTag<int8_t, 32> d8;
  const hn::FixedTag<int16_t, 16> d16;
  const hn::FixedTag<int32_t, 8> d32;
  const auto ones = hn::Set(d16, 1);
  auto sum = hn::Zero(d32);
  NEEDLE_UNROLL(4)
  for (size_t i = 0; i < kSimdGroup; i += 32) {
    const __m256i a = hn::LoadU(d8, entries + i).raw;
    const __m256i b = _mm256_sign_epi8(hn::LoadU(d8, values + i).raw, a);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), b);
    sum = hn::Add(sum, hn::Vec<decltype(d32)>{_mm256_madd_epi16(pairs, ones.raw)});
  }
  return hn::GetLane(hn::SumOfLanes(d32, sum));
#else
  const hn::FixedTag<int16_t, 8> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  auto even = hn::Zero(d32);
  auto odd = hn::Zero(d32);
  NEEDLE_UNROLL(16)
  for (size_t i = 0; i < kSimdGroup; i += hn::MaxLanes(d16)) {
    const auto a = hn::PromoteTo(d16, hn::LoadU(d8, entries + i));
    const auto b = hn::PromoteTo(d16, hn::LoadU(d8, values + i));
    even = hn::ReorderWidenMulAccumulate(d32, a, b, even, odd);
  }
  return hn::GetLane(hn::SumOfLanes(d32, hn::Add(even, odd)));
#endif
}

// Adds the terms of `count` groups of one row, from group `first` on, to the row of every vector.
template <uint32_t kBits>
HWY_INLINE void AddChunk(const MultiplyJob& job, size_t row, size_t first, size_t count) {
  const auto& view = job.matrix->view();
  const size_t number = row * view.layout.groups + first;
  alignas(64) int8_t entries[kChunk * kSimdGroup];
  UnpackEntries<kBits>(view.indices.data() + number * (kSimdGroup / 8 * kBits), count,
                       job.matrix->table().data(), entries);
  float norms[kChunk];
  for (size_t i = 0; i < count; ++i) {
    norms[i] = base::F32FromF16(base::LoadLe<uint16_t>(&view.norms[2 * (number + i)]));
  }
  for (size_t v = 0; v < job.x->count(); ++v) {
    const int8_t* values = job.x->values(v).data() + first * kSimdGroup;
    const float* scales = job.x->scales(v).data() + first;
    float sum = job.y[v * job.y_stride + row];
    for (size_t i = 0; i < count; ++i) {
      const int32_t dot = Dot(entries + i * kSimdGroup, values + i * kSimdGroup);
      sum += static_cast<float>(dot) * norms[i] * scales[i] * job.matrix->table_scale();
    }
    job.y[v * job.y_stride + row] = sum;
  }
}

template <uint32_t kBits>
void MultiplyBits(const MultiplyJob& job) {
  const size_t groups = job.matrix->view().layout.groups;
  for (size_t row = job.first; row < job.first + job.count; ++row) {
    for (size_t v = 0; v < job.x->count(); ++v) job.y[v * job.y_stride + row] = 0;
    for (size_t first = 0; first < groups; first += kChunk) {
      AddChunk<kBits>(job, row, first, std::min(kChunk, groups - first));
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
  NEEDLE_UNROLL(32)
  for (size_t i = 0; i < kVectors; ++i) v[i] = hn::LoadU(d, group + i * kLanes);
  RotateVectors(v, hn::Set(d, RotationScale(kSimdGroup)));
  Floats largest = hn::Zero(d);
  NEEDLE_UNROLL(32)
  for (size_t i = 0; i < kVectors; ++i) largest = hn::Max(largest, hn::Abs(v[i]));
  const float scale = ActivationScale(hn::GetLane(hn::MaxOfLanes(d, largest)));
  const Floats divisor = hn::Set(d, scale);
  const hn::Rebind<int8_t, IntTag> d8;
  NEEDLE_UNROLL(32)
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
