#include <algorithm>

#include "quant/transpose_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/transpose_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kBlock = 4;  // values of one 16-byte vector
constexpr size_t kTile = 16;  // values of one cache line
using BlockTag = hn::FixedTag<float, kBlock>;

#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
// Highway's own conversion for targets without F16C does not know infinity.
template <class D, class Bits = hn::Vec<hn::Rebind<uint16_t, D>>>
HWY_INLINE hn::Vec<D> F32FromF16Bits(D d, Bits bits) {
  const hn::RebindToUnsigned<D> du;
  const auto wide = hn::PromoteTo(du, bits);
  const auto magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(du, 0x7FFF)));
  // 2^112 moves the exponent's bias from 15 to 127, exactly, subnormals included.
  const auto scaled = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112F));
  const auto special = hn::Gt(magnitude, hn::Set(du, 0x0F7FFFFF));
  const auto finite = hn::BitCast(du, scaled);
  const auto value = hn::IfThenElse(special, hn::Or(magnitude, hn::Set(du, 0x7F800000)), finite);
  return hn::BitCast(d, hn::Or(value, hn::ShiftLeft<16>(hn::And(wide, hn::Set(du, 0x8000)))));
}
#else
template <class D, class Bits = hn::Vec<hn::Rebind<uint16_t, D>>>
HWY_INLINE hn::Vec<D> F32FromF16Bits(D d, Bits bits) {
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
}
#endif

// As many source values as `d` has lanes; loads bytes, which may lie at any address.
template <SourceType kType, class D>
HWY_INLINE hn::Vec<D> LoadValues(D d, const uint8_t* HWY_RESTRICT bytes) {
  if constexpr (kType == SourceType::kF32) {
    return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), bytes));
  } else {
    const hn::Rebind<uint16_t, D> d16;
    const auto bits = hn::BitCast(d16, hn::LoadU(hn::Repartition<uint8_t, decltype(d16)>(), bytes));
    if constexpr (kType == SourceType::kF16) return F32FromF16Bits(d, bits);
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
}

// 4 columns at `source` of 4 rows of `row_bytes` become 4 rows at `values` of `stride` values.
template <SourceType kType>
HWY_INLINE void TransposeBlock(const uint8_t* HWY_RESTRICT source, size_t row_bytes,
                               float* HWY_RESTRICT values, size_t stride) {
  const BlockTag d;
  const auto a = LoadValues<kType>(d, source);
  const auto b = LoadValues<kType>(d, source + row_bytes);
  const auto c = LoadValues<kType>(d, source + 2 * row_bytes);
  const auto e = LoadValues<kType>(d, source + 3 * row_bytes);
  const auto ac_low = hn::InterleaveLower(d, a, c);
  const auto be_low = hn::InterleaveLower(d, b, e);
  const auto ac_high = hn::InterleaveUpper(d, a, c);
  const auto be_high = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac_low, be_low), d, values);
  hn::StoreU(hn::InterleaveUpper(d, ac_low, be_low), d, values + stride);
  hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, values + 2 * stride);
  hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, values + 3 * stride);
}

// Rows [first_row, end_row) and columns [first, end) of the part, one value after the other.
template <SourceType kType>
void TransposeEdge(const TransposeJob& job, size_t first_row, size_t end_row, size_t first,
                   size_t end) {
  for (size_t r = first_row; r < end_row; ++r) {
    for (size_t c = first; c < end; ++c) {
      job.values[c * job.rows + r] =
          LoadSource<kType>(&job.source[(r * job.cols + job.first + c) * SourceBytes(kType)]);
    }
  }
}

template <SourceType kType>
void TransposeTyped(const TransposeJob& job) {
  const size_t bytes = SourceBytes(kType);
  const size_t rows = job.rows - job.rows % kBlock;
  const size_t count = job.count - job.count % kBlock;
  // Whole cache lines of both sides, and the source read along its rows.
  for (size_t tile_r = 0; tile_r < rows; tile_r += kTile) {
    for (size_t tile_c = 0; tile_c < count; tile_c += kTile) {
      for (size_t c = tile_c; c < std::min(tile_c + kTile, count); c += kBlock) {
        for (size_t r = tile_r; r < std::min(tile_r + kTile, rows); r += kBlock) {
          TransposeBlock<kType>(job.source.data() + (r * job.cols + job.first + c) * bytes,
                                job.cols * bytes, job.values.data() + c * job.rows + r, job.rows);
        }
      }
    }
  }
  TransposeEdge<kType>(job, rows, job.rows, 0, job.count);
  TransposeEdge<kType>(job, 0, rows, count, job.count);
}

template <SourceType kType>
void ConvertTyped(std::span<const uint8_t> source, std::span<float> values) {
  const hn::CappedTag<float, kTile> d;
  const size_t bytes = SourceBytes(kType);
  const size_t whole = values.size() - values.size() % hn::Lanes(d);
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    hn::StoreU(LoadValues<kType>(d, source.data() + i * bytes), d, values.data() + i);
  }
  ConvertPortable(source.subspan(whole * bytes), kType, values.subspan(whole));
}

void TransposeAll(const TransposeJob& job) {
  switch (job.type) {
    case SourceType::kF32:
      return TransposeTyped<SourceType::kF32>(job);
    case SourceType::kF16:
      return TransposeTyped<SourceType::kF16>(job);
    case SourceType::kBf16:
      return TransposeTyped<SourceType::kBf16>(job);
    case SourceType::kF64:
      return TransposePortable(job);
  }
}

void ConvertAll(std::span<const uint8_t> source, SourceType type, std::span<float> values) {
  switch (type) {
    case SourceType::kF32:
      return ConvertTyped<SourceType::kF32>(source, values);
    case SourceType::kF16:
      return ConvertTyped<SourceType::kF16>(source, values);
    case SourceType::kBf16:
      return ConvertTyped<SourceType::kBf16>(source, values);
    case SourceType::kF64:
      return ConvertPortable(source, type, values);
  }
}

#else

void TransposeAll(const TransposeJob& job) { TransposePortable(job); }
void ConvertAll(std::span<const uint8_t> source, SourceType type, std::span<float> values) {
  ConvertPortable(source, type, values);
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace needle::quant {

HWY_EXPORT(TransposeAll);
HWY_EXPORT(ConvertAll);

void TransposeSimd(const TransposeJob& job) { HWY_DYNAMIC_DISPATCH(TransposeAll)(job); }

void ConvertSimd(std::span<const uint8_t> source, SourceType type, std::span<float> values) {
  HWY_DYNAMIC_DISPATCH(ConvertAll)(source, type, values);
}

}  // namespace needle::quant
#endif  // HWY_ONCE
