#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "quant/encode_kernel.h"
#include "quant/rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/encode_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "quant/pack-inl.h"
#include "quant/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {

#if NEEDLE_FIXED_LANES

using format::Width;

// Entries and thresholds of a codebook, padded to whole vectors of 16.
struct SearchTables {
  alignas(64) float entries[16];
  alignas(64) float thresholds[16];
  // thresholds[4k + 1] and thresholds[2k]: those of the last two steps of a binary search.
  alignas(64) float quarters[16];
  alignas(64) float evens[16];
  float rotation_scale;
};

SearchTables MakeTables(const Codebook& codebook) {
  SearchTables tables{};
  std::copy(codebook.entries().begin(), codebook.entries().end(), tables.entries);
  std::copy(codebook.thresholds().begin(), codebook.thresholds().end(), tables.thresholds);
  for (size_t k = 0; k < 4; ++k) tables.quarters[k] = tables.thresholds[4 * k + 1];
  for (size_t k = 0; k < 8; ++k) tables.evens[k] = tables.thresholds[2 * k];
  tables.rotation_scale = RotationScale(kSimdGroup);
  return tables;
}

// What a search finds for a vector of directions.
struct Found {
  Ints index;
  Floats entry;
};

// Counts the thresholds below each direction.
template <size_t kLevels>
HWY_INLINE Found SearchByCounting(const SearchTables& tables, Floats unit) {
  const FloatTag d;
  Ints index = hn::Zero(IntTag());
  Floats entry = hn::Set(d, tables.entries[0]);
#pragma GCC unroll 16
  for (size_t k = 0; k + 1 < kLevels; ++k) {
    const auto above = hn::Gt(unit, hn::Set(d, tables.thresholds[k]));
    index = hn::IfThenElse(hn::RebindMask(IntTag(), above),
                           hn::Set(IntTag(), static_cast<int32_t>(k + 1)), index);
    entry = hn::IfThenElse(above, hn::Set(d, tables.entries[k + 1]), entry);
  }
  return {index, entry};
}

HWY_INLINE Ints AddIf(hn::Mask<FloatTag> mask, Ints index, int32_t step) {
  const IntTag di;
  return hn::IfThenElse(hn::RebindMask(di, mask), hn::Add(index, hn::Set(di, step)), index);
}

// The value of `table` (at least kLanes long) at `index` < kLanes.
HWY_INLINE Floats Lookup(const float* HWY_RESTRICT table, Ints index) {
  const FloatTag d;
  return hn::TableLookupLanes(hn::Load(d, table), hn::IndicesFromVec(d, index));
}

// Binary search for 8 and 16 levels, whose last step chooses among 4 or 8 thresholds.
template <size_t kLevels>
HWY_INLINE Found SearchByHalving(const SearchTables& tables, Floats unit) {
  const FloatTag d;
  const float* HWY_RESTRICT t = tables.thresholds;
  constexpr size_t kHalf = kLevels / 2;
  constexpr size_t kQuarter = kLevels / 4;
  const auto upper = hn::Gt(unit, hn::Set(d, t[kHalf - 1]));
  const Floats second =
      hn::IfThenElse(upper, hn::Set(d, t[kHalf + kQuarter - 1]), hn::Set(d, t[kQuarter - 1]));
  // `place`: how many of the thresholds looked at are below, as a binary number.
  Ints place = AddIf(upper, hn::Zero(IntTag()), 2);
  place = AddIf(hn::Gt(unit, second), place, 1);
  if constexpr (kLevels == 16) {
    const auto above = hn::Gt(unit, Lookup(tables.quarters, place));
    place = AddIf(above, hn::Add(place, place), 1);
  }
  const auto above = hn::Gt(unit, Lookup(tables.evens, place));
  const Ints index = AddIf(above, hn::Add(place, place), 1);
  if constexpr (kLevels <= kLanes) return {index, Lookup(tables.entries, index)};
  const Ints low = hn::And(index, hn::Set(IntTag(), 7));
  return {index,
          hn::IfThenElse(upper, Lookup(tables.entries + 8, low), Lookup(tables.entries, low))};
}

template <Width kWidth>
HWY_INLINE Found Search(const SearchTables& tables, Floats unit) {
  if constexpr (kWidth == Width::kBinary) return SearchByCounting<2>(tables, unit);
  if constexpr (kWidth == Width::kTernary) return SearchByCounting<3>(tables, unit);
  if constexpr (kWidth == Width::kCq2) return SearchByCounting<4>(tables, unit);
  if constexpr (kWidth == Width::kCq3 && kLanes >= 8) return SearchByHalving<8>(tables, unit);
  if constexpr (kWidth == Width::kCq4 && kLanes >= 8) return SearchByHalving<16>(tables, unit);
  if constexpr (kWidth == Width::kCq3 && kLanes < 8) return SearchByCounting<8>(tables, unit);
  if constexpr (kWidth == Width::kCq4 && kLanes < 8) return SearchByCounting<16>(tables, unit);
}

// Bit patterns as stored, one byte each: a ternary code minus 1 is its crumb.
template <Width kWidth>
HWY_INLINE void StorePatterns(Ints index, uint8_t* HWY_RESTRICT patterns) {
  const IntTag di;
  if constexpr (kWidth == Width::kTernary) {
    index = hn::And(hn::Sub(index, hn::Set(di, 1)), hn::Set(di, 3));
  }
  const hn::Rebind<uint8_t, IntTag> d8;
  hn::StoreU(hn::DemoteTo(d8, index), d8, patterns);
}

// What is left of a group beside its indices.
struct GroupSums {
  float norm = 0;  // unrounded
  float squares = 0;
  float squared_error = 0;
};

// One group of 128 as EncodeGroupsPortable does it; nothing is packed when the norm does not fit.
template <Width kWidth>
HWY_INLINE GroupSums EncodeGroup(const float* HWY_RESTRICT weights, const SearchTables& tables,
                                 uint8_t* HWY_RESTRICT packed, uint16_t& norm_bits) {
  const FloatTag d;
  Floats v[kVectors];
#pragma GCC unroll 32
  for (size_t i = 0; i < kVectors; ++i) v[i] = hn::LoadU(d, weights + i * kLanes);
  RotateVectors(v, hn::Set(d, tables.rotation_scale));
  SquareSum sum;
#pragma GCC unroll 32
  for (size_t i = 0; i < kVectors; ++i) sum.Add(i, v[i]);
  GroupSums sums;
  sums.squares = sum.Total();
  sums.norm = std::sqrt(sums.squares);
  if (!(sums.norm <= base::kMaxF16)) return sums;
  norm_bits = base::F16FromF32(sums.norm);
  const Floats stored = hn::Set(d, base::F32FromF16(norm_bits));
  const Floats divisor = hn::Set(d, std::max(sums.norm, kMinNorm));
  SquareSum error;
  alignas(64) uint8_t patterns[kSimdGroup];
#pragma GCC unroll 32
  for (size_t i = 0; i < kVectors; ++i) {
    const Found found = Search<kWidth>(tables, hn::Div(v[i], divisor));
    StorePatterns<kWidth>(found.index, patterns + i * kLanes);
    error.Add(i, hn::Sub(hn::Mul(found.entry, stored), v[i]));
  }
  sums.squared_error = error.Total();
  PackPatterns<kWidth>(patterns, packed);
  return sums;
}

template <Width kWidth>
size_t EncodeGroups(const EncodeJob& job, EncodeStats& stats) {
  const SearchTables tables = MakeTables(*job.codebook);
  const size_t group_bytes = job.row_bytes / job.groups;
  alignas(64) float padded[kSimdGroup] = {};
  for (size_t number = 0; number < job.rows * job.groups; ++number) {
    const auto weights = GroupWeights(job, number);
    const float* source = weights.data();
    if (weights.size() < kSimdGroup) {  // rows are alike, so the rest stays zero
      std::memcpy(padded, source, weights.size() * sizeof(float));
      source = padded;
    }
    const GroupSums sums = EncodeGroup<kWidth>(
        source, tables, job.indices.data() + number * group_bytes, job.norms[number]);
    if (!(sums.norm <= base::kMaxF16)) return number;
    if (sums.norm < base::kMinNormalF16) CountSmallNorm(weights, stats);
    ++stats.groups;
    stats.squared_weights += static_cast<double>(sums.squares);
    stats.squared_error += static_cast<double>(sums.squared_error);
  }
  return kNoBadGroup;
}

size_t EncodeGroupsOf(const EncodeJob& job, EncodeStats& stats) {
  switch (job.codebook->width()) {
    case Width::kBinary:
      return EncodeGroups<Width::kBinary>(job, stats);
    case Width::kTernary:
      return EncodeGroups<Width::kTernary>(job, stats);
    case Width::kCq2:
      return EncodeGroups<Width::kCq2>(job, stats);
    case Width::kCq3:
      return EncodeGroups<Width::kCq3>(job, stats);
    case Width::kCq4:
      return EncodeGroups<Width::kCq4>(job, stats);
  }
  return kNoBadGroup;
}

#else

size_t EncodeGroupsOf(const EncodeJob& job, EncodeStats& stats) {
  return EncodeGroupsPortable(job, stats);
}

#endif  // NEEDLE_FIXED_LANES

}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace needle::quant {

HWY_EXPORT(EncodeGroupsOf);

size_t EncodeGroupsSimd(const EncodeJob& job, EncodeStats& stats) {
  return HWY_DYNAMIC_DISPATCH(EncodeGroupsOf)(job, stats);
}

}  // namespace needle::quant
#endif  // HWY_ONCE
