// format/layer_selection.h: which blocks a depth keeps. Specification: "Subnetworks: --layers N".
#ifndef NEEDLE_FORMAT_LAYER_SELECTION_H_
#define NEEDLE_FORMAT_LAYER_SELECTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "format/geometry.h"

namespace needle::format {

// The order in which blocks are taken: both ends, then the midpoint of the widest gap (the leftmost
// on a tie). num_layers >= 1; a permutation of 0 ... num_layers-1.
std::vector<uint32_t> LadderOrder(uint32_t num_layers);

// A depth of a model: the blocks that stay and what the slice makes of the geometry.
struct LayerSelection {
  std::vector<uint32_t> layers;  // ascending, numbered as in the input
  std::vector<uint32_t> sites;   // numbers (not layers) of the input's engram sites that stay
  Geometry geometry;             // of the result; kv_window still as in the input

  // Depth `depth` of `geometry`. `ladder_order` empty: LadderOrder; else a permutation of 0 ... L-1
  // (InvalidArgument when it is none). InvalidArgument: depth outside [2, L] (a depth of L is the
  // whole model, also when L is 1).
  static absl::StatusOr<LayerSelection> Make(const Geometry& geometry, uint32_t depth,
                                             std::span<const uint32_t> ladder_order);
};

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_LAYER_SELECTION_H_
