#include "format/scan.h"

#include <algorithm>

#include "base/endian.h"

namespace needle::format {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);
constexpr size_t kBlockBytes = 4096;

// `flags` returns non-zero when the word holds what is looked for. Whole blocks are folded before
// they are tested, so that the inner loop has no branch; then the word is looked up. The last bytes
// are padded with zeros, which no scan looks for. Returns the index of the word's first byte.
template <typename Flags>
std::optional<size_t> FindWord(std::span<const uint8_t> bytes, Flags flags) {
  const size_t whole = bytes.size() / kWordBytes * kWordBytes;
  for (size_t block = 0; block < whole; block += kBlockBytes) {
    const size_t end = std::min(whole, block + kBlockBytes);
    uint64_t folded = 0;
    for (size_t i = block; i < end; i += kWordBytes) {
      folded |= flags(base::LoadLe<uint64_t>(&bytes[i]));
    }
    if (folded == 0) continue;
    for (size_t i = block; i < end; i += kWordBytes) {
      if (flags(base::LoadLe<uint64_t>(&bytes[i])) != 0) return i;
    }
  }
  uint64_t last = 0;
  for (size_t i = whole; i < bytes.size(); ++i) last |= uint64_t{bytes[i]} << (8 * (i - whole));
  if (flags(last) != 0) return whole;
  return std::nullopt;
}

// As FindWord, narrowed to the first value of `value_bytes` bytes in that word.
template <typename Flags>
std::optional<size_t> FindValue(std::span<const uint8_t> bytes, size_t value_bytes, Flags flags) {
  const auto word = FindWord(bytes, flags);
  if (!word) return std::nullopt;
  size_t at = *word;
  while (!FindWord(bytes.subspan(at, value_bytes), flags)) at += value_bytes;
  return at / value_bytes;
}

}  // namespace

std::optional<size_t> FindNonFiniteF16(std::span<const uint8_t> bytes) {
  // An exponent of all ones overflows into the sign's place, in each of the four lanes by itself.
  return FindValue(bytes, 2, [](uint64_t word) {
    return ((word & 0x7C00'7C00'7C00'7C00U) + 0x0400'0400'0400'0400U) & 0x8000'8000'8000'8000U;
  });
}

std::optional<size_t> FindNonFiniteF32(std::span<const uint8_t> bytes) {
  return FindValue(bytes, 4, [](uint64_t word) {
    return ((word & 0x7F80'0000'7F80'0000U) + 0x0080'0000'0080'0000U) & 0x8000'0000'8000'0000U;
  });
}

std::optional<size_t> FindInvalidCrumb(std::span<const uint8_t> packed) {
  return FindValue(packed, 1,
                   [](uint64_t word) { return (word >> 1) & ~word & 0x5555'5555'5555'5555U; });
}

std::optional<size_t> FindNonZero(std::span<const uint8_t> bytes) {
  return FindValue(bytes, 1, [](uint64_t word) { return word; });
}

}  // namespace needle::format
