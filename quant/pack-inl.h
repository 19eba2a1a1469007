// quant/pack-inl.h: packing of one group of 128 patterns, the bits of pack.h.
// For sources that Highway compiles once for each target; include between its begin and end.

#if defined(NEEDLE_QUANT_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEEDLE_QUANT_PACK_INL_H_
#undef NEEDLE_QUANT_PACK_INL_H_
#else
#define NEEDLE_QUANT_PACK_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "format/width.h"
#include "hwy/highway.h"
#include "quant/unroll.h"

#if HWY_ARCH_X86_64
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace needle::quant {
namespace HWY_NAMESPACE {

// Eight bytes out of the low 8 * kBits bits.
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

// Bit i moves to bit i * kBits, of as many bits as there are lanes (4 where there is no BMI2).
template <uint32_t kBits>
HWY_INLINE uint64_t SpreadBits(uint64_t bits) {
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
  constexpr uint64_t kEvery[] = {~0ULL, 0x5555555555555555, 0x1249249249249249, 0x1111111111111111};
  return _pdep_u64(bits, kEvery[kBits - 1]);
#else
  static constexpr auto kSpread = [] {
    std::array<uint16_t, 16> spread{};
    for (uint32_t i = 0; i < 64; ++i) {
      spread[i / 4] |= static_cast<uint16_t>(((i / 4) >> (i % 4) & 1) << (i % 4 * kBits));
    }
    return spread;
  }();
  return kSpread[bits];
#endif
}

template <class D>
HWY_INLINE uint64_t BitsOfMask(D d, hwy::HWY_NAMESPACE::Mask<D> mask) {
  uint8_t bytes[8] = {};
  hwy::HWY_NAMESPACE::StoreMaskBits(d, mask, bytes);
  uint64_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

// Packs a group of patterns that come vector by vector, as one mask for each of their bits.
template <uint32_t kBits, class D>
class PatternWriter {
 public:
  // `packed`: room for the group, 16 * kBits bytes.
  HWY_INLINE explicit PatternWriter(uint8_t* HWY_RESTRICT packed) : packed_(packed) {}

  // `index`: the number of the vector in the group, ascending; bits[0] is the lowest bit.
  HWY_INLINE void Write(size_t index, const hwy::HWY_NAMESPACE::Mask<D>* bits) {
    constexpr size_t kLanes = HWY_LANES(float);
    uint64_t joined = 0;
    NEEDLE_UNROLL(4)
    for (uint32_t b = 0; b < kBits; ++b) joined |= SpreadBits<kBits>(BitsOfMask(D(), bits[b])) << b;
    if constexpr (kLanes >= 8) {
      constexpr size_t kBytes = kLanes * kBits / 8;
      std::memcpy(packed_ + index * kBytes, &joined, kBytes);
    } else if (index % 2 == 0) {
      even_ = joined;
    } else {
      joined = even_ | (joined << (kLanes * kBits));
      std::memcpy(packed_ + index / 2 * kBits, &joined, kBits);
    }
  }

 private:
  uint8_t* packed_;
  uint64_t even_ = 0;  // of half a byte's worth of vectors of 4
};

// 8 patterns' bits from where they start; kBits bytes.
template <uint32_t kBits>
HWY_INLINE uint64_t LoadJoined(const uint8_t* HWY_RESTRICT packed) {
  if constexpr (kBits == 3) {  // loads of sizes that machines have, not by way of memory
    uint16_t low;
    std::memcpy(&low, packed, sizeof(low));
    return low | (uint64_t{packed[2]} << 16);
  }
  uint64_t joined = 0;
  std::memcpy(&joined, packed, kBits);
  return joined;
}

// A group unpacked: 128 patterns, a byte each, from 16 * kBits bytes.
template <uint32_t kBits>
HWY_INLINE void UnpackGroup(const uint8_t* HWY_RESTRICT packed, uint8_t* HWY_RESTRICT patterns) {
  NEEDLE_UNROLL(16)
  for (size_t i = 0; i < 16; ++i) {
    const uint64_t bytes = SplitBytes<kBits>(LoadJoined<kBits>(packed + i * kBits));
    std::memcpy(patterns + 8 * i, &bytes, sizeof(bytes));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace needle::quant
HWY_AFTER_NAMESPACE();

#endif  // NEEDLE_QUANT_PACK_INL_H_
