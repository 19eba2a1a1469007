// quant/bit_map_of.h: the bit map that an archive's widths come to. Specification: "Which width for
// which tensor: the bit map".
#ifndef NEEDLE_QUANT_BIT_MAP_OF_H_
#define NEEDLE_QUANT_BIT_MAP_OF_H_

#include <cstdint>
#include <span>
#include <string>

#include "format/schema.h"
#include "format/width.h"

namespace needle::quant {

// A map in the grammar that gives `widths` (one for each tensor of `schema`; read for CQ tensors
// that are no head's). The most frequent width is the default (the narrower one on a tie); then one
// key for all of attn, mhc or engram where they agree, one for each name where they do not, and
// layerNN. keys for layers that differ from most. Layers and sites are numbered as in `schema`, or,
// for a slice, as `layers` and `sites` of its LayerSelection say.
std::string BitMapTextOf(const format::Schema& schema, std::span<const format::Width> widths,
                         std::span<const uint32_t> layers = {},
                         std::span<const uint32_t> sites = {});

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_BIT_MAP_OF_H_
