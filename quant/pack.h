// quant/pack.h: index streams. Specification: "Packing".
#ifndef NEEDLE_QUANT_PACK_H_
#define NEEDLE_QUANT_PACK_H_

#include <cstdint>
#include <span>

#include "format/width.h"

namespace needle::quant {

// `codes` are codebook positions (0 = lowest entry; ternary 0, 1, 2 for -1, 0, +1), codes.size() a
// multiple of 8. `packed` has codes.size() * StoredBits(width) / 8 bytes. Ternary codes become
// signed crumbs.
void PackRow(format::Width width, std::span<const uint8_t> codes, std::span<uint8_t> packed);

// The bit patterns as stored, `bits` each: patterns.size() of them, a multiple of 8.
void UnpackPatterns(uint32_t bits, std::span<const uint8_t> packed, std::span<uint8_t> patterns);

// The inverse of PackRow. The invalid ternary crumb 2 becomes code 1 (weight 0).
void UnpackRow(format::Width width, std::span<const uint8_t> packed, std::span<uint8_t> codes);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_PACK_H_
