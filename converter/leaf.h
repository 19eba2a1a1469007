// converter/leaf.h: a tensor of a checkpoint, and its values in f32. Specification: "Full-precision
// checkpoints", Files.
#ifndef NEEDLE_CONVERTER_LEAF_H_
#define NEEDLE_CONVERTER_LEAF_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace needle::converter {

// The floating-point types that weights may have; integers, booleans and 8-bit floats are kOther.
enum class LeafType : uint8_t { kF16, kBf16, kF32, kF64, kOther };

// Bytes of a value: 2, 2, 4, 8; 0 for kOther.
uint64_t LeafTypeBytes(LeafType type);

// What a container's header says of a tensor.
struct Leaf {
  std::string name;  // the Flax tree's path, "stack/layers/block/self_attn/q_proj/kernel"
  LeafType type = LeafType::kOther;
  std::string type_name;  // as the file spells it: "F32", "<f4"
  std::vector<uint64_t> shape;
};

// Values of `shape`; 1 for an empty one; nothing when the product does not fit in 64 bits.
std::optional<uint64_t> NumLeafValues(std::span<const uint64_t> shape);
// "[4, 256]"
std::string LeafShapeText(std::span<const uint64_t> shape);

// A leaf's bytes, all of them, as they lie in the file. `bytes` is valid as long as the container
// that gave it and `owner` (null when the bytes are in the container's own mapping).
struct LeafData {
  std::span<const uint8_t> bytes;
  bool big_endian = false;
  bool fortran_order = false;  // the first axis varies fastest
  std::shared_ptr<const std::vector<uint8_t>> owner;
};

// values[i] from the i-th value at `bytes` (values.size() values, no alignment needed), exact
// except for f64, which is rounded to nearest even and becomes infinite beyond f32's range. `type`
// is not kOther.
void ConvertToF32(LeafType type, bool big_endian, std::span<const uint8_t> bytes,
                  std::span<float> values);
// One value in f64, exact.
double LeafValue(LeafType type, bool big_endian, const uint8_t* bytes);

// `value` rounded to what `type` can hold (nearest even), back in f64.
double RoundToLeafType(LeafType type, double value);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_LEAF_H_
