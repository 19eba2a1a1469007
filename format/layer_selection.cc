#include "format/layer_selection.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace needle::format {
namespace {

absl::Status CheckLadderOrder(std::span<const uint32_t> order, uint32_t num_layers) {
  std::vector<uint32_t> sorted(order.begin(), order.end());
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint32_t> wanted(num_layers);
  std::iota(wanted.begin(), wanted.end(), 0U);
  if (sorted == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "ladder_order: %d entries, want each of 0 to %d once", order.size(), num_layers - 1));
}

// The position at which the blocks `layers` hold `layer`, or their number when they do not.
uint32_t PositionOf(const std::vector<uint32_t>& layers, uint32_t layer) {
  return static_cast<uint32_t>(std::find(layers.begin(), layers.end(), layer) - layers.begin());
}

}  // namespace

std::vector<uint32_t> LadderOrder(uint32_t num_layers) {
  std::vector<uint32_t> order = {0};
  if (num_layers > 1) order.push_back(num_layers - 1);
  while (order.size() < num_layers) {
    std::vector<uint32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    size_t widest = 1;
    for (size_t i = 2; i < sorted.size(); ++i) {
      if (sorted[i] - sorted[i - 1] > sorted[widest] - sorted[widest - 1]) widest = i;
    }
    order.push_back((sorted[widest - 1] + sorted[widest]) / 2);
  }
  return order;
}

absl::StatusOr<LayerSelection> LayerSelection::Make(const Geometry& geometry, uint32_t depth,
                                                    std::span<const uint32_t> ladder_order) {
  const uint32_t num_layers = geometry.num_layers;
  if (depth != num_layers && (depth < 2 || depth > num_layers)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("layers: %d, want 2 to %d", depth, num_layers));
  }
  const std::vector<uint32_t> order =
      ladder_order.empty() ? LadderOrder(num_layers)
                           : std::vector<uint32_t>(ladder_order.begin(), ladder_order.end());
  RETURN_IF_ERROR(CheckLadderOrder(order, num_layers));

  LayerSelection selection;
  selection.layers.assign(order.begin(), order.begin() + depth);
  std::sort(selection.layers.begin(), selection.layers.end());
  selection.geometry = geometry;
  selection.geometry.num_layers = depth;
  selection.geometry.global_mask = 0;
  selection.geometry.engram_sites.clear();
  for (uint32_t position = 0; position < depth; ++position) {
    if (geometry.IsGlobal(selection.layers[position])) {
      selection.geometry.global_mask |= uint64_t{1} << position;
    }
  }
  for (uint32_t site = 0; site < geometry.engram_sites.size(); ++site) {
    const uint32_t position = PositionOf(selection.layers, geometry.engram_sites[site]);
    if (position == depth) continue;
    selection.sites.push_back(site);
    selection.geometry.engram_sites.push_back(position);
  }
  return selection;
}

}  // namespace needle::format
