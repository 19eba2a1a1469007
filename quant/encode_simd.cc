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
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "quant/pack-inl.h"
#include "quant/rotate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {

#if NEEDLE_FIXED_LANES

using format::Width;

// A codebook as the search reads it. Looked-up tables are padded to a whole vector.
struct SearchTables {
  alignas(64) float entries[16];
  alignas(64) float thresholds[16];
  // For the last two steps of a binary search, by the index's bits found so far.
  alignas(64) float quarters[16];       // thresholds[4k + 1]
  alignas(64) float evens[16];          // thresholds[2k]
  alignas(64) float lower_entries[16];  // entries[2k]
  alignas(64) float upper_entries[16];  // entries[2k + 1]
  float rotation_scale;
};

SearchTables MakeTables(const Codebook& codebook) {
  SearchTables tables{};
  std::copy(codebook.entries().begin(), codebook.entries().end(), tables.entries);
  std::copy(codebook.thresholds().begin(), codebook.thresholds().end(), tables.thresholds);
  for (size_t k = 0; k < 4; ++k) tables.quarters[k] = tables.thresholds[4 * k + 1];
  for (size_t k = 0; k < 8; ++k) {
    tables.evens[k] = tables.thresholds[2 * k];
    tables.lower_entries[k] = tables.entries[2 * k];
    tables.upper_entries[k] = tables.entries[2 * k + 1];
  }
  tables.rotation_scale = RotationScale(kSimdGroup);
  return tables;
}

using FloatMask = hn::Mask<FloatTag>;

// What a search finds for a vector of directions: the bits of the stored patterns, and the entries.
template <uint32_t kBits>
struct Found {
  FloatMask bits[kBits];  // bits[0] is the lowest
  Floats entry;
};

HWY_INLINE Found<1> SearchBinary(const SearchTables& tables, Floats unit) {
  const FloatTag d;
  const FloatMask above = hn::Gt(unit, hn::Set(d, tables.thresholds[0]));
  return {{above},
          hn::IfThenElse(above, hn::Set(d, tables.entries[1]), hn::Set(d, tables.entries[0]))};
}

// The patterns are crumbs: 3, 0 and 1 from the lowest entry up.
HWY_INLINE Found<2> SearchTernary(const SearchTables& tables, Floats unit) {
  const FloatTag d;
  const FloatMask lowest = hn::Le(unit, hn::Set(d, tables.thresholds[0]));
  const FloatMask highest = hn::Gt(unit, hn::Set(d, tables.thresholds[1]));
  const Floats upper =
      hn::IfThenElse(highest, hn::Set(d, tables.entries[2]), hn::Set(d, tables.entries[1]));
  return {{hn::Or(lowest, highest), lowest},
          hn::IfThenElse(lowest, hn::Set(d, tables.entries[0]), upper)};
}

HWY_INLINE Ints AddIf(FloatMask mask, Ints index, int32_t step) {
  const IntTag di;
  return hn::IfThenElse(hn::RebindMask(di, mask), hn::Add(index, hn::Set(di, step)), index);
}

// The values of `table` at `index` < kLanes.
HWY_INLINE Floats Lookup(const float* HWY_RESTRICT table, Ints index) {
  const FloatTag d;
  if constexpr (kLanes >= 8) {
    return hn::TableLookupLanes(hn::Load(d, table), hn::IndicesFromVec(d, index));
  } else {
    return hn::GatherIndex(d, table, index);
  }
}

// Binary search from the highest bit down.
template <uint32_t kBits>
HWY_INLINE Found<kBits> SearchByHalving(const SearchTables& tables, Floats unit) {
  const FloatTag d;
  const float* HWY_RESTRICT t = tables.thresholds;
  constexpr size_t kHalf = size_t{1} << (kBits - 1);
  constexpr size_t kQuarter = kHalf / 2;
  Found<kBits> found;
  const FloatMask top = hn::Gt(unit, hn::Set(d, t[kHalf - 1]));
  const FloatMask second = hn::Gt(
      unit, hn::IfThenElse(top, hn::Set(d, t[kHalf + kQuarter - 1]), hn::Set(d, t[kQuarter - 1])));
  found.bits[kBits - 1] = top;
  found.bits[kBits - 2] = second;
  if constexpr (kBits == 2) {
    const Floats lower =
        hn::IfThenElse(second, hn::Set(d, tables.entries[1]), hn::Set(d, tables.entries[0]));
    const Floats upper =
        hn::IfThenElse(second, hn::Set(d, tables.entries[3]), hn::Set(d, tables.entries[2]));
    found.entry = hn::IfThenElse(top, upper, lower);
  } else {
    Ints index = AddIf(second, AddIf(top, hn::Zero(IntTag()), 2), 1);
    if constexpr (kBits == 4) {
      found.bits[1] = hn::Gt(unit, Lookup(tables.quarters, index));
      index = AddIf(found.bits[1], hn::Add(index, index), 1);
    }
    found.bits[0] = hn::Gt(unit, Lookup(tables.evens, index));
    found.entry = hn::IfThenElse(found.bits[0], Lookup(tables.upper_entries, index),
                                 Lookup(tables.lower_entries, index));
  }
  return found;
}

template <Width kWidth>
HWY_INLINE Found<BitsOf(kWidth)> Search(const SearchTables& tables, Floats unit) {
  if constexpr (kWidth == Width::kBinary) {
    return SearchBinary(tables, unit);
  } else if constexpr (kWidth == Width::kTernary) {
    return SearchTernary(tables, unit);
  } else {
    return SearchByHalving<BitsOf(kWidth)>(tables, unit);
  }
}

// `norm` as the archive stores it, and the value that it is read back as.
HWY_INLINE float RoundNorm(float norm, uint16_t& bits) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  bits = _cvtss_sh(norm, _MM_FROUND_TO_NEAREST_INT);
  return _cvtsh_ss(bits);
#else
  bits = base::F16FromF32(norm);
  return base::F32FromF16(bits);
#endif
}

// What is left of a group beside its indices.
struct GroupSums {
  float norm = 0;  // unrounded
  float squares = 0;
  float squared_error = 0;
};

// One group of 128 as EncodeGroupsPortable does it; nothing is packed when the norm does not fit.
// Longer than most functions so that the group stays in registers from the first step to the last.
template <Width kWidth>
HWY_INLINE GroupSums EncodeGroup(const float* HWY_RESTRICT weights, const SearchTables& tables,
                                 uint8_t* HWY_RESTRICT packed, uint16_t& norm_bits) {
  const FloatTag d;
  // Weights stream from memory; a few groups ahead saves a tenth of the time, past the end is
  // harmless.
  NEEDLE_UNROLL(8)
  for (size_t i = 0; i < kSimdGroup; i += 16) hwy::Prefetch(weights + 4 * kSimdGroup + i);
  Floats v[kVectors];
  NEEDLE_UNROLL(32)
  for (size_t i = 0; i < kVectors; ++i) v[i] = hn::LoadU(d, weights + i * kLanes);
  RotateVectors(v, hn::Set(d, tables.rotation_scale));
  SquareSum sum;
  NEEDLE_UNROLL(32)
  for (size_t i = 0; i < kVectors; ++i) sum.Add(i, v[i]);
  GroupSums sums;
  sums.squares = sum.Total();
  sums.norm = std::sqrt(sums.squares);
  if (!(sums.norm <= base::kMaxF16)) return sums;
  const Floats stored = hn::Set(d, RoundNorm(sums.norm, norm_bits));
  const Floats divisor = hn::Set(d, std::max(sums.norm, kMinNorm));
  SquareSum error;
  PatternWriter<BitsOf(kWidth), FloatTag> writer(packed);
  NEEDLE_UNROLL(32)
  for (size_t i = 0; i < kVectors; ++i) {
    const auto found = Search<kWidth>(tables, hn::Div(v[i], divisor));
    writer.Write(i, found.bits);
    error.Add(i, hn::Sub(hn::Mul(found.entry, stored), v[i]));
  }
  sums.squared_error = error.Total();
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
