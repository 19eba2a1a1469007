// converter/calibrate/width_keys.h: the tensors that get a width, by their keys in a bit map, and
// what that takes.
#ifndef NEEDLE_CONVERTER_CALIBRATE_WIDTH_KEYS_H_
#define NEEDLE_CONVERTER_CALIBRATE_WIDTH_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/tensor_plan.h"
#include "format/width.h"

namespace needle::calibrate {

struct WidthKey {
  std::string key;      // "layer02.q_proj", "engram0.tables": numbered as in the checkpoint
  size_t position = 0;  // in the schema
  uint64_t padded_weights = 0;
};

// Every CQ tensor that is no head's, in file order.
std::vector<WidthKey> WidthKeys(const converter::TensorPlan& plan);

// Bytes of a tensor's blob in a file, with the gap behind it that alignment asks for.
absl::StatusOr<uint64_t> FileBytes(const converter::TensorPlan& plan, const WidthKey& key,
                                   format::Width width);
// Bytes of its indices alone.
uint64_t IndexBytes(const WidthKey& key, format::Width width);

// The map that gives each tensor its width.
std::string MapText(const converter::TensorPlan& plan, std::span<const WidthKey> keys,
                    std::span<const format::Width> widths);
// The widths that a plan gives them.
std::vector<format::Width> WidthsOf(const converter::TensorPlan& plan,
                                    std::span<const WidthKey> keys);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_WIDTH_KEYS_H_
