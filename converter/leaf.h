// converter/leaf.h: a tensor of a checkpoint, and its values in f32. Specification: "Full-precision
// checkpoints", Files.
#ifndef NEEDLE_CONVERTER_LEAF_H_
#define NEEDLE_CONVERTER_LEAF_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/transpose.h"

namespace needle::converter {

// What a container's header says of a tensor.
struct Leaf {
  std::string name;  // the Flax tree's path, "stack/layers/block/self_attn/q_proj/kernel"
  std::optional<quant::SourceType>
      type;               // nothing for what weights cannot be: integers, 8-bit floats
  std::string type_name;  // as the file spells it: "F32", "<f4"
  std::vector<uint64_t> shape;
};

// Position of `name` in `leaves` (sorted by name), or nothing.
std::optional<size_t> FindLeaf(const std::vector<Leaf>& leaves, std::string_view name);

// Values of `shape`; 1 for an empty one; nothing when the product does not fit in 64 bits.
std::optional<uint64_t> NumLeafValues(std::span<const uint64_t> shape);
// "[4, 256]"
std::string LeafShapeText(std::span<const uint64_t> shape);

// A leaf's values, all of them, little-endian. `bytes` is valid as long as the container that gave
// it and `owner` (null when the bytes lie in the container's own mapping).
struct LeafData {
  std::span<const uint8_t> bytes;
  bool fortran_order = false;  // the first axis varies fastest
  std::shared_ptr<const std::vector<uint8_t>> owner;
};

// One value in f64, exact; SourceBytes(type) bytes must be readable.
double LeafValue(quant::SourceType type, const uint8_t* bytes);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_LEAF_H_
