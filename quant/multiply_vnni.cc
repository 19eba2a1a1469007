// Products with AVX-512 VNNI and VBMI: byte permutations turn packed indices into entries, and
// vpdpbusd multiplies them with the activations.
//
// Work goes over blocks of 8 rows and pairs of groups (256 weights a row). A byte permutation
// indexes 64 entries with the low 6 bits of each byte; tables that repeat their entries pick an
// index out of its place in the byte, so that hardly any shifting or masking is left. The order in
// which weights come out is the width's own; activations are brought into the same order once a
// call.
#include "hwy/highway.h"
#include "quant/multiply_kernel.h"

#if HWY_ARCH_X86_64
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/endian.h"
#include "hwy/aligned_allocator.h"
#include "hwy/targets.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,f16c,avx2,fma,bmi2")

namespace needle::quant {
namespace {

constexpr size_t kBlockRows = 8;
constexpr size_t kMaxVectors = 64;  // whose activations stay in the second cache level
constexpr size_t kGroup = 128;
constexpr size_t kPair = 2 * kGroup;

// vpdpbusd takes one unsigned side: entries have this added, and kOffset * sum(x) is subtracted.
constexpr int32_t kOffset = 128;

// Where byte `position` of a pair's unpacked weights comes from: its column in the pair.
template <uint32_t kBits>
constexpr size_t ColumnOf(size_t position) {
  const size_t vector = position / 64;
  const size_t byte = position % 64;
  if constexpr (kBits == 1) {
    return byte / 32 * kGroup + byte % 16 * 8 + byte / 16 % 2 * 4 + vector;
  }
  if constexpr (kBits == 2) return byte / 32 * kGroup + byte % 32 * 4 + vector;
  if constexpr (kBits == 3) return position;
  return vector / 2 * kGroup + byte * 2 + vector % 2;
}

// Two vectors of a group of activations -> vector `vector` of the pair in unpacked order.
template <uint32_t kBits>
struct Order {
  alignas(64) uint8_t column[kPair];  // within its group
  uint64_t second[4] = {};            // bit set: of the second group
};
template <uint32_t kBits>
constexpr Order<kBits> MakeOrder() {
  Order<kBits> order{};
  for (size_t i = 0; i < kPair; ++i) {
    const size_t column = ColumnOf<kBits>(i);
    order.column[i] = static_cast<uint8_t>(column % kGroup);
    if (column >= kGroup) order.second[i / 64] |= uint64_t{1} << (i % 64);
  }
  return order;
}

// A pair of groups of one vector of activations.
struct PairX {
  __m512i values[4];  // int8, in unpacked order
  __m512i start;      // int32: -kOffset * sum(x), spread over lanes as Products spreads its sums
  __m512 scales;      // of the groups, in the lanes of Reduce
};

struct Tables {
  __m512i of_place[4];  // entries + kOffset by the low 6 bits of a byte with the index at a place
};

template <uint32_t kBits>
Tables MakeTables(const KernelMatrix& matrix) {
  alignas(64) std::array<uint8_t, 64> bytes{};
  Tables tables;
  for (uint32_t place = 0; place < 4; ++place) {
    for (uint32_t i = 0; i < 64; ++i) {
      const uint32_t pattern = (i >> (place * kBits)) & ((1U << kBits) - 1);
      bytes[i] = static_cast<uint8_t>(matrix.table()[pattern] + kOffset);
    }
    tables.of_place[place] = _mm512_load_si512(bytes.data());
  }
  return tables;
}

// The bytes of a pair; with `kOdd` only its first group is there and the rest reads as zero.
template <bool kOdd, size_t kBytes>
__m512i LoadPair(const uint8_t* packed) {
  static_assert(kBytes <= 64);
  constexpr size_t kCount = kOdd ? kBytes / 2 : kBytes;
  return _mm512_maskz_loadu_epi8(~uint64_t{0} >> (64 - kCount), packed);
}

// 64 indices of 3 bits from the 24 bytes at `offset`.
template <size_t kOffsetBytes>
__m512i SpreadThrees(__m512i bytes) {
  alignas(64) static constexpr auto kPlaces = [] {
    std::array<uint8_t, 64> places{};
    for (size_t i = 0; i < 64; ++i) {
      places[i] = static_cast<uint8_t>(kOffsetBytes + i / 8 * 3 + i % 8 % 3);
    }
    return places;
  }();
  const __m512i shifts = _mm512_set1_epi64(0x15120F0C09060300);
  const __m512i units = _mm512_permutexvar_epi8(_mm512_load_si512(kPlaces.data()), bytes);
  return _mm512_multishift_epi64_epi8(shifts, units);
}

// The entries (+ kOffset) of one row's pair in unpacked order.
template <uint32_t kBits, bool kOdd>
void Unpack(const uint8_t* packed, const Tables& tables, __m512i* out) {
  const auto look_up = [&](int place, __m512i bytes) {
    return _mm512_permutexvar_epi8(bytes, tables.of_place[place]);
  };
  if constexpr (kBits == 1) {
    const __m512i twice = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3),
                                                   LoadPair<kOdd, 32>(packed));
    const __m512i shifts = _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0,
                                             0x0004000400040004, 0x0004000400040004);
    const __m512i nibbles = _mm512_srlv_epi16(twice, shifts);
    for (int i = 0; i < 4; ++i) out[i] = look_up(i, nibbles);
  } else if constexpr (kBits == 2) {
    const __m512i bytes = LoadPair<kOdd, 64>(packed);
    for (int i = 0; i < 3; ++i) out[i] = look_up(i, bytes);
    out[3] = look_up(0, _mm512_srli_epi16(bytes, 6));
  } else if constexpr (kBits == 3) {
    const __m512i first = LoadPair<false, 48>(packed);
    const __m512i second = kOdd ? _mm512_setzero_si512() : LoadPair<false, 48>(packed + 48);
    out[0] = look_up(0, SpreadThrees<0>(first));
    out[1] = look_up(0, SpreadThrees<24>(first));
    out[2] = look_up(0, SpreadThrees<0>(second));
    out[3] = look_up(0, SpreadThrees<24>(second));
  } else {
    const __m512i first = _mm512_loadu_si512(packed);
    const __m512i second = kOdd ? _mm512_setzero_si512() : _mm512_loadu_si512(packed + 64);
    out[0] = look_up(0, first);
    out[1] = look_up(0, _mm512_srli_epi16(first, 4));
    out[2] = look_up(0, second);
    out[3] = look_up(0, _mm512_srli_epi16(second, 4));
  }
}

// `start` plus the products of a pair: lanes 0-7 add up to the first group's, 8-15 to the second's.
template <uint32_t kBits>
__m512i Products(const __m512i* weights, const __m512i* values, __m512i start) {
  if constexpr (kBits <= 2) {
    for (int i = 0; i < 4; ++i) start = _mm512_dpbusd_epi32(start, weights[i], values[i]);
    return start;
  }
  const __m512i zero = _mm512_setzero_si512();
  __m512i first = _mm512_dpbusd_epi32(zero, weights[0], values[0]);
  __m512i second = _mm512_dpbusd_epi32(zero, weights[2], values[2]);
  first = _mm512_dpbusd_epi32(first, weights[1], values[1]);
  second = _mm512_dpbusd_epi32(second, weights[3], values[3]);
  const __m512i low = _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1);
  const __m512i high = _mm512_shuffle_i64x2(first, second, 0xEE);
  return _mm512_add_epi32(start, _mm512_add_epi32(low, high));
}

// The sums of 8 rows' products, a ... h: first group of a-d, second of a-d, first of e-h, second.
__m512i Reduce(const __m512i* rows) {
  __m512i halves[4];
  for (int i = 0; i < 4; ++i) {
    const __m512i a = rows[2 * i];
    const __m512i b = rows[2 * i + 1];
    halves[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  }
  __m512i quarters[2];
  for (int i = 0; i < 2; ++i) {
    const __m512i ab = halves[2 * i];
    const __m512i cd = halves[2 * i + 1];
    quarters[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  }
  return _mm512_add_epi32(_mm512_shuffle_i32x4(quarters[0], quarters[1], 0x88),
                          _mm512_shuffle_i32x4(quarters[0], quarters[1], 0xDD));
}

// The 8 rows of a block; past the last row it is the last row again, whose result is not stored.
struct Block {
  std::array<const uint8_t*, kBlockRows> packed;
  std::array<const uint8_t*, kBlockRows> norms;
};

// The norms of a pair for 8 rows, in the lanes of Reduce.
template <bool kOdd>
__m512 LoadNorms(const Block& block, size_t pair) {
  std::array<int32_t, kBlockRows> both;
  for (size_t row = 0; row < kBlockRows; ++row) {
    const uint8_t* norms = block.norms[row] + 4 * pair;
    both[row] = kOdd ? base::LoadLe<uint16_t>(norms) : base::LoadLe<int32_t>(norms);
  }
  const __m256i by_row =
      _mm256_setr_epi32(both[0], both[1], both[2], both[3], both[4], both[5], both[6], both[7]);
  const __m256i by_group =
      _mm256_shuffle_epi8(by_row, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                      0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)));
  return _mm512_cvtph_ps(by_group);
}

// Adds a pair's terms to y[v] (8 rows) of every vector.
template <uint32_t kBits, bool kOdd>
void AddPair(const Block& block, size_t pair, const Tables& tables, __m512 table_scale,
             std::span<const PairX> x, __m256* y) {
  __m512i weights[kBlockRows][4];
  for (size_t row = 0; row < kBlockRows; ++row) {
    Unpack<kBits, kOdd>(block.packed[row] + pair * kPair * kBits / 8, tables, weights[row]);
  }
  const __m512 norms = LoadNorms<kOdd>(block, pair);
  for (size_t v = 0; v < x.size(); ++v) {
    __m512i sums[kBlockRows];
    for (size_t row = 0; row < kBlockRows; ++row) {
      sums[row] = Products<kBits>(weights[row], x[v].values, x[v].start);
    }
    __m512 terms = _mm512_mul_ps(_mm512_cvtepi32_ps(Reduce(sums)), norms);
    terms = _mm512_mul_ps(_mm512_mul_ps(terms, x[v].scales), table_scale);
    const __m512 swapped = _mm512_shuffle_f32x4(terms, terms, 0xD8);  // first groups, then second
    y[v] = _mm256_add_ps(y[v], _mm512_castps512_ps256(swapped));
    // Where there is no second group its terms are +0, which change nothing.
    y[v] = _mm256_add_ps(y[v], _mm512_extractf32x8_ps(swapped, 1));
  }
}

// One pair of groups of vector `v`; zeros where there is no second group.
template <uint32_t kBits>
PairX MakePair(const QuantizedActivations& x, size_t v, size_t pair) {
  alignas(64) static constexpr Order<kBits> kOrder = MakeOrder<kBits>();
  const auto values = x.values(v).subspan(pair * kPair);
  const auto scales = x.scales(v).subspan(pair * 2);
  const bool odd = scales.size() == 1;
  const auto load = [&](size_t i) {
    return odd && i >= 2 ? _mm512_setzero_si512() : _mm512_loadu_si512(values.data() + 64 * i);
  };
  PairX out;
  __m512i all[4];
  for (size_t i = 0; i < 4; ++i) {
    const __m512i columns = _mm512_load_si512(kOrder.column + 64 * i);
    const __m512i first = _mm512_permutex2var_epi8(load(0), columns, load(1));
    const __m512i second = _mm512_permutex2var_epi8(load(2), columns, load(3));
    out.values[i] = _mm512_mask_blend_epi8(kOrder.second[i], first, second);
    all[i] = _mm512_set1_epi8(static_cast<char>(kOffset));
  }
  const __m512i zero = _mm512_setzero_si512();
  out.start = _mm512_sub_epi32(zero, Products<kBits>(all, out.values, zero));
  const __m512i second_lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1);
  const __m128 both = _mm_setr_ps(scales[0], odd ? 0.0F : scales[1], 0, 0);
  out.scales = _mm512_permutexvar_ps(second_lanes, _mm512_castps128_ps512(both));
  return out;
}

Block BlockAt(const MultiplyJob& job, size_t row) {
  const auto& view = job.matrix->view();
  Block block;
  for (size_t i = 0; i < kBlockRows; ++i) {
    const size_t clamped = std::min(row + i, job.first + job.count - 1);
    block.packed[i] = view.indices.data() + clamped * view.layout.row_bytes;
    block.norms[i] = view.norms.data() + clamped * view.layout.groups * 2;
  }
  return block;
}

// Room for `count` pairs, the calling thread's own and kept for its next call.
std::span<PairX> ScratchPairs(size_t count) {
  thread_local hwy::AlignedFreeUniquePtr<PairX[]> pairs;
  thread_local size_t size = 0;
  if (size < count) {
    pairs = hwy::AllocateAligned<PairX>(count);
    size = count;
  }
  return {pairs.get(), count};
}

// Vectors [first, first + count) with all rows of the job.
template <uint32_t kBits>
void MultiplyVectors(const MultiplyJob& job, size_t first, size_t count) {
  const size_t groups = job.matrix->view().layout.groups;
  const size_t pairs = (groups + 1) / 2;
  const std::span<PairX> x = ScratchPairs(pairs * count);  // [pairs, count]
  for (size_t i = 0; i < pairs * count; ++i) {
    x[i] = MakePair<kBits>(*job.x, first + i % count, i / count);
  }
  const Tables tables = MakeTables<kBits>(*job.matrix);
  const __m512 table_scale = _mm512_set1_ps(job.matrix->table_scale());
  for (size_t row = job.first; row < job.first + job.count; row += kBlockRows) {
    const Block block = BlockAt(job, row);
    __m256 y[kMaxVectors];
    for (size_t v = 0; v < count; ++v) y[v] = _mm256_setzero_ps();
    for (size_t pair = 0; pair < groups / 2; ++pair) {
      AddPair<kBits, false>(block, pair, tables, table_scale, x.subspan(pair * count, count), y);
    }
    if (groups % 2 != 0) {
      AddPair<kBits, true>(block, pairs - 1, tables, table_scale,
                           x.subspan((pairs - 1) * count, count), y);
    }
    const size_t rows = std::min(kBlockRows, job.first + job.count - row);
    const auto mask = static_cast<__mmask8>((1U << rows) - 1);
    for (size_t v = 0; v < count; ++v) {
      _mm256_mask_storeu_ps(&job.y[(first + v) * job.y_stride + row], mask, y[v]);
    }
  }
}

template <uint32_t kBits>
void MultiplyAll(const MultiplyJob& job) {
  for (size_t v = 0; v < job.x->count(); v += kMaxVectors) {
    MultiplyVectors<kBits>(job, v, std::min(kMaxVectors, job.x->count() - v));
  }
}

}  // namespace

void MultiplyVnni(const MultiplyJob& job) {
  switch (format::StoredBits(job.matrix->view().width)) {
    case 1:
      return MultiplyAll<1>(job);
    case 2:
      return MultiplyAll<2>(job);
    case 3:
      return MultiplyAll<3>(job);
    default:
      return MultiplyAll<4>(job);
  }
}

}  // namespace needle::quant

HWY_POP_ATTRIBUTES

namespace needle::quant {
bool HasVnni() {
  // Asked for once: it reads CPUID, which traps into the hypervisor of a virtual machine.
  static const bool has = (hwy::SupportedTargets() & HWY_AVX3_DL) != 0;
  return has;
}
}  // namespace needle::quant

#else

namespace needle::quant {
bool HasVnni() { return false; }
void MultiplyVnni(const MultiplyJob& job) { MultiplyPortable(job); }
}  // namespace needle::quant

#endif  // HWY_ARCH_X86_64
