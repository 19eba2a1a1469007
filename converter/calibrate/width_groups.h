// converter/calibrate/width_groups.h: which tensors get their width together, and what that takes.
#ifndef NEEDLE_CONVERTER_CALIBRATE_WIDTH_GROUPS_H_
#define NEEDLE_CONVERTER_CALIBRATE_WIDTH_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/tensor_plan.h"
#include "format/width.h"

namespace needle::calibrate {

// The tensors that one key of a bit map names: all layers of a projection, or a single tensor.
struct WidthGroup {
  std::string key;                // canonical, sites numbered as in the checkpoint
  std::vector<size_t> positions;  // in the schema
  uint64_t padded_weights = 0;    // of all of them
};

// Every CQ tensor that is no head's, in file order of the groups' first tensors.
std::vector<WidthGroup> GroupTensors(const converter::TensorPlan& plan);

// Bytes of a group's blobs in a file, with the gaps behind them that alignment asks for.
absl::StatusOr<uint64_t> FileBytes(const converter::TensorPlan& plan, const WidthGroup& group,
                                   format::Width width);
// Bytes of its indices alone.
uint64_t IndexBytes(const WidthGroup& group, format::Width width);

// The map that gives each group its width.
std::string MapText(const converter::TensorPlan& plan, std::span<const WidthGroup> groups,
                    std::span<const format::Width> widths);
// Of a plan that has a width for each group; the widths are those of the groups' first tensors.
std::vector<format::Width> GroupWidths(const converter::TensorPlan& plan,
                                       std::span<const WidthGroup> groups);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_WIDTH_GROUPS_H_
