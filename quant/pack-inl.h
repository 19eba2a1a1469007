// quant/pack-inl.h: packing of one group of 128 patterns, the bits of pack.h.
// For sources that Highway compiles once for each target; include between its begin and end.

#if defined(NEEDLE_QUANT_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEEDLE_QUANT_PACK_INL_H_
#undef NEEDLE_QUANT_PACK_INL_H_
#else
#define NEEDLE_QUANT_PACK_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "format/width.h"
#include "hwy/highway.h"

#if HWY_ARCH_X86_64
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {

// The low kBits bits of each of eight bytes, joined: bits [k * kBits, (k+1) * kBits) are byte k's.
template <uint32_t kBits>
HWY_INLINE uint64_t JoinBytes(uint64_t bytes) {
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  return _pext_u64(bytes, 0x0101010101010101ULL * ((1ULL << kBits) - 1));
#else
  bytes = (bytes & 0x00FF00FF00FF00FFULL) | ((bytes & 0xFF00FF00FF00FF00ULL) >> (8 - kBits));
  bytes = (bytes & 0x0000FFFF0000FFFFULL) | ((bytes & 0xFFFF0000FFFF0000ULL) >> (16 - 2 * kBits));
  return (bytes & 0xFFFFFFFFULL) | ((bytes >> 32) << (4 * kBits));
#endif
}

// The inverse: eight bytes out of the low 8 * kBits bits.
template <uint32_t kBits>
HWY_INLINE uint64_t SplitBytes(uint64_t joined) {
  constexpr uint64_t kFirst = (1ULL << kBits) - 1;
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  return _pdep_u64(joined, 0x0101010101010101ULL * kFirst);
#else
  constexpr uint64_t kFour = (1ULL << (4 * kBits)) - 1;
  constexpr uint64_t kTwo = ((1ULL << (2 * kBits)) - 1) * 0x0000000100000001ULL;
  constexpr uint64_t kOne = kFirst * 0x0001000100010001ULL;
  uint64_t bytes = (joined & kFour) | (((joined >> (4 * kBits)) & kFour) << 32);
  bytes = (bytes & kTwo) | (((bytes >> (2 * kBits)) & kTwo) << 16);
  return (bytes & kOne) | (((bytes >> kBits) & kOne) << 8);
#endif
}

constexpr uint32_t BitsOf(format::Width width) {
  return width == format::Width::kTernary ? 2 : static_cast<uint32_t>(width);
}

// `patterns`: 128 bytes, each less than 2^bits; `packed`: 16 * bits bytes.
template <format::Width kWidth>
HWY_INLINE void PackPatterns(const uint8_t* HWY_RESTRICT patterns, uint8_t* HWY_RESTRICT packed) {
  constexpr uint32_t kBits = BitsOf(kWidth);
  constexpr size_t kWords = kBits == 3 ? 2 : 8 / kBits;  // whose bits fill 6 or 8 bytes
  constexpr size_t kBytes = kWords * kBits;
#pragma GCC unroll 16
  for (size_t block = 0; block < 16 / kWords; ++block) {
    uint64_t joined = 0;
#pragma GCC unroll 8
    for (size_t k = 0; k < kWords; ++k) {
      uint64_t word;
      std::memcpy(&word, patterns + 8 * (block * kWords + k), sizeof(word));
      joined |= JoinBytes<kBits>(word) << (8 * kBits * k);
    }
    std::memcpy(packed + block * kBytes, &joined, kBytes);
  }
}

// The inverse: 128 patterns, a byte each, from 16 * kBits bytes.
template <uint32_t kBits>
HWY_INLINE void UnpackGroup(const uint8_t* HWY_RESTRICT packed, uint8_t* HWY_RESTRICT patterns) {
  constexpr size_t kWords = kBits == 3 ? 2 : 1;  // from loads of a size that machines have
#pragma GCC unroll 16
  for (size_t i = 0; i < 16; i += kWords) {
    uint64_t joined = 0;
    std::memcpy(&joined, packed + i * kBits, kWords * kBits);
#pragma GCC unroll 2
    for (size_t k = 0; k < kWords; ++k) {
      const uint64_t bytes = SplitBytes<kBits>(joined >> (8 * kBits * k));
      std::memcpy(patterns + 8 * (i + k), &bytes, sizeof(bytes));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();

#endif  // NEEDLE_QUANT_PACK_INL_H_
