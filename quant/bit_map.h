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

class BitMap {
 public:
  // `name=width,...,default=width`. InvalidArgument naming the key: given twice, empty, bad width,
  // no default, stray comma or space.
  static absl::StatusOr<BitMap> Parse(std::string_view text);
  // `default=width`.
  static BitMap Uniform(format::Width width);

  // The width of each tensor of `schema` (kCq4 for heads' matrices; meaningless for tensors that
  // are not CQ). `input_layers[i]`: the number in the input of the schema's layer i;
  // `num_input_layers`: how many the input has, so that a key for a block that a slice dropped is
  // no error. InvalidArgument: a key that matches no CQ tensor of the input, or one that names a
  // head (whose matrices are always 4-bit).
  absl::StatusOr<std::vector<format::Width>> Resolve(const format::Schema& schema,
                                                     std::span<const uint32_t> input_layers,
                                                     uint32_t num_input_layers) const;

  // In the grammar, keys in the order given, default last.
  std::string Text() const;

 private:
  struct Key {
    std::string name;
    format::Width width;
  };
  std::vector<Key> keys_;
  format::Width default_ = format::Width::kCq2;
};

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_BIT_MAP_H_
