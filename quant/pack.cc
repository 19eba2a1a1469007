#include "quant/pack.h"

#include <array>
#include <cstddef>

namespace needle::quant {
namespace {

using format::Width;

// Ternary codes 0, 1, 2 (-1, 0, +1) as signed crumbs, and back; the invalid crumb 2 reads as 0.
constexpr std::array<uint8_t, 3> kCrumbOfCode = {3, 0, 1};
constexpr std::array<uint8_t, 4> kCodeOfCrumb = {1, 2, 1, 0};

}  // namespace

void PackRow(Width width, std::span<const uint8_t> codes, std::span<uint8_t> packed) {
  const uint32_t bits = format::StoredBits(width);
  for (size_t i = 0; i < codes.size(); i += 8) {
    uint32_t word = 0;
    for (size_t k = 0; k < 8; ++k) {
      const uint32_t code = width == Width::kTernary ? kCrumbOfCode[codes[i + k]] : codes[i + k];
      word |= code << (k * bits);
    }
    for (size_t byte = 0; byte < bits; ++byte) {
      packed[i / 8 * bits + byte] = static_cast<uint8_t>(word >> (8 * byte));
    }
  }
}

void UnpackPatterns(uint32_t bits, std::span<const uint8_t> packed, std::span<uint8_t> patterns) {
  const uint32_t mask = (1U << bits) - 1;
  for (size_t i = 0; i < patterns.size(); i += 8) {
    uint32_t word = 0;
    for (size_t byte = 0; byte < bits; ++byte) {
      word |= static_cast<uint32_t>(packed[i / 8 * bits + byte]) << (8 * byte);
    }
    for (size_t k = 0; k < 8; ++k) {
      patterns[i + k] = static_cast<uint8_t>((word >> (k * bits)) & mask);
    }
  }
}

void UnpackRow(Width width, std::span<const uint8_t> packed, std::span<uint8_t> codes) {
  UnpackPatterns(format::StoredBits(width), packed, codes);
  if (width != Width::kTernary) return;
  for (uint8_t& code : codes) code = kCodeOfCrumb[code];
}

}  // namespace needle::quant
