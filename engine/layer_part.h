// engine/layer_part.h: how far into a layer a run goes.
#ifndef NEEDLE_ENGINE_LAYER_PART_H_
#define NEEDLE_ENGINE_LAYER_PART_H_

#include <cstdint>

namespace needle::engine {

// The products of a layer in the order of the specification's "Layer i": those of a part read
// inputs that depend on the matrices of the parts before it.
enum class LayerPart : uint8_t {
  kLanes,      // mhc_phi_*
  kEngram,     // key_proj, value_proj
  kAttention,  // q_proj, k_proj, v_proj, gate_proj
  kOutput,     // out_proj
  kWhole,      // everything
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_LAYER_PART_H_
