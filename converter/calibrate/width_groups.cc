#include "converter/calibrate/width_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/status_macros.h"
#include "converter/tensor_source.h"
#include "format/record.h"
#include "quant/bit_map_of.h"

namespace needle::calibrate {
namespace {

std::string KeyOf(const converter::TensorPlan& plan, const format::TensorSpec& spec) {
  const std::string role(format::RoleName(spec.id.role));
  if (format::IsLayerRole(spec.id.role)) return "attn." + role;
  if (!format::IsEngramRole(spec.id.role)) return role;
  return absl::StrFormat("engram%d.%s", plan.selection().sites[spec.id.index], role);
}

}  // namespace

std::vector<WidthGroup> GroupTensors(const converter::TensorPlan& plan) {
  std::vector<WidthGroup> groups;
  for (size_t i = 0; i < plan.schema().tensors().size(); ++i) {
    const format::TensorSpec& spec = plan.schema().tensors()[i];
    if (spec.dtype != format::DType::kCq || format::IsHeadRole(spec.id.role)) continue;
    const std::string key = KeyOf(plan, spec);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const WidthGroup& other) { return other.key == key; });
    if (group == groups.end()) group = groups.insert(groups.end(), {key, {}, 0});
    group->positions.push_back(i);
    const uint64_t cols = converter::TensorCols(spec);
    group->padded_weights +=
        converter::TensorRows(spec) * base::CheckedRoundUp(cols, format::kGroup).value_or(cols);
  }
  return groups;
}

absl::StatusOr<uint64_t> FileBytes(const converter::TensorPlan& plan, const WidthGroup& group,
                                   format::Width width) {
  uint64_t sum = 0;
  for (const size_t position : group.positions) {
    ASSIGN_OR_RETURN(const uint64_t bytes,
                     format::BlobBytes(plan.schema().tensors()[position], width));
    sum += base::CheckedRoundUp(bytes, format::kBlobAlignment).value_or(bytes);
  }
  return sum;
}

uint64_t IndexBytes(const WidthGroup& group, format::Width width) {
  return group.padded_weights / 8 * format::StoredBits(width);
}

std::string MapText(const converter::TensorPlan& plan, std::span<const WidthGroup> groups,
                    std::span<const format::Width> widths) {
  std::vector<format::Width> by_position(plan.schema().tensors().size(), format::Width::kCq4);
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const size_t position : groups[i].positions) by_position[position] = widths[i];
  }
  return quant::BitMapTextOf(plan.schema(), by_position, plan.selection().layers,
                             plan.selection().sites);
}

std::vector<format::Width> GroupWidths(const converter::TensorPlan& plan,
                                       std::span<const WidthGroup> groups) {
  std::vector<format::Width> widths;
  for (const WidthGroup& group : groups) widths.push_back(plan.widths()[group.positions[0]]);
  return widths;
}

}  // namespace needle::calibrate
