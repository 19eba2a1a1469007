// quant/bit_map.h: which width for which tensor. Specification: "Which width for which tensor: the
// bit map".
#ifndef NEEDLE_QUANT_BIT_MAP_H_
#define NEEDLE_QUANT_BIT_MAP_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/schema.h"
#include "format/width.h"

namespace needle::quant {

inline constexpr std::string_view kShippedScheme = "embedding=4,mhc=4,default=2";

// How a schema's blocks and engram sites are numbered in the input that it was made from (a slice
// drops some): keys of a bit map use the input's numbers. LayerSelection has both lists.
struct InputNumbers {
  std::span<const uint32_t> layers;  // of the schema's layer 0, 1, ...
  std::span<const uint32_t> sites;   // of the schema's engram site 0, 1, ...
  uint32_t num_layers = 0;           // of the input
  uint32_t num_sites = 0;            // of the input
};

// The names of tensors that keys are matched with; numbers are the input's. Tensors that belong to
// no layer or site have their canonical name.
std::string LayerKey(uint32_t layer, format::TensorRole role);  // "layer02.q_proj"
std::string AttentionKey(format::TensorRole role);              // "attn.q_proj": of every layer
std::string EngramKey(uint32_t site, format::TensorRole role);  // "engram0.tables"

class BitMap {
 public:
  // `name=width,...,default=width`. InvalidArgument naming the key: given twice, empty, bad width,
  // no default, stray comma or space.
  static absl::StatusOr<BitMap> Parse(std::string_view text);
  // `default=width`.
  static BitMap Uniform(format::Width width);

  // The width of each tensor of `schema` (kCq4 for heads' matrices; meaningless for tensors that
  // are not CQ). InvalidArgument: a key that matches no CQ tensor of the input (a block or site
  // that a slice dropped still counts), or one that names a head (whose matrices are always 4-bit).
  absl::StatusOr<std::vector<format::Width>> Resolve(const format::Schema& schema,
                                                     const InputNumbers& input) const;

  // In the grammar, keys in the order given, default last.
  std::string Text() const;

 private:
  struct Key {
    std::string name;
    format::Width width;
  };

  format::Width WidthOf(std::string_view layer_name, std::string_view name) const;

  std::vector<Key> keys_;
  format::Width default_ = format::Width::kCq2;
};

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_BIT_MAP_H_
