// converter/leaf_map.h: where each archive tensor comes from in the Flax tree. The only place for
// leaf paths and transposes. Specification: "Tree -> archive", "Which generation".
#ifndef NEEDLE_CONVERTER_LEAF_MAP_H_
#define NEEDLE_CONVERTER_LEAF_MAP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/geometry.h"
#include "format/layer_selection.h"
#include "format/schema.h"

namespace needle::converter {

// An axis of a leaf, and which of its indices are read.
struct LeafAxis {
  uint32_t leaf_axis = 0;
  std::vector<uint32_t> indices;  // in this order; empty: all
};

// A leaf as an archive tensor sees it: the tensor's values in row-major order are the leaf's values
// with `axes` as nested loops, outermost first.
struct LeafBinding {
  std::string path;
  std::vector<uint64_t> shape;  // that the leaf must have
  std::vector<LeafAxis> axes;
  std::optional<uint32_t> layer;  // index on the leaf's axis 0, when `axes` leaves that one out
};

// How `spec` of a result is read from the tree. `full` is the whole model's geometry, `selection`
// what the result keeps of it (all layers for a whole model), `heads` those of the result. Nothing
// for tensors that no leaf holds: hada_p1, hada_p2, the heads' manifest, the tokenizer.
std::optional<LeafBinding> BindLeaf(const format::Geometry& full,
                                    const format::LayerSelection& selection,
                                    std::span<const format::HeadShape> heads,
                                    const format::TensorSpec& spec);

// Whether a tree may lack the tensor's leaf, and what its values are then: zeros, or the router's
// triple.
bool MayBeMissing(format::TensorRole role);
std::vector<float> DefaultValues(const format::TensorSpec& spec);

// The path of a head's leaf: "confidence_head/probes".
std::string HeadLeafPath(format::HeadKind kind, format::TensorRole role);

// What a leaf that no tensor is bound to means.
enum class LeafUse : uint8_t {
  kUnknown,       // no table knows it
  kTrainingOnly,  // dropped
  kScales,        // "ab_scales": refused
  kSpeech,        // a speech model's: refused
};
LeafUse UseOfUnboundLeaf(std::string_view path);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_LEAF_MAP_H_
