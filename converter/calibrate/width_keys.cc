#include "converter/calibrate/width_keys.h"

#include "base/checked.h"
#include "base/status_macros.h"
#include "converter/tensor_source.h"
#include "format/record.h"
#include "quant/bit_map.h"
#include "quant/bit_map_of.h"

namespace needle::calibrate {
namespace {

std::string KeyOf(const converter::TensorPlan& plan, const format::TensorSpec& spec) {
  const auto& [role, index] = spec.id;
  if (format::IsLayerRole(role)) return quant::LayerKey(plan.selection().layers[index], role);
  if (format::IsEngramRole(role)) return quant::EngramKey(plan.selection().sites[index], role);
  return spec.name;
}

}  // namespace

std::vector<WidthKey> WidthKeys(const converter::TensorPlan& plan) {
  std::vector<WidthKey> keys;
  for (size_t i = 0; i < plan.schema().tensors().size(); ++i) {
    const format::TensorSpec& spec = plan.schema().tensors()[i];
    if (spec.dtype != format::DType::kCq || format::IsHeadRole(spec.id.role)) continue;
    const uint64_t cols = converter::TensorCols(spec);
    const uint64_t padded_cols = base::CheckedRoundUp(cols, format::kGroup).value_or(cols);
    keys.push_back({KeyOf(plan, spec), i, converter::TensorRows(spec) * padded_cols});
  }
  return keys;
}

absl::StatusOr<uint64_t> FileBytes(const converter::TensorPlan& plan, const WidthKey& key,
                                   format::Width width) {
  ASSIGN_OR_RETURN(const uint64_t bytes,
                   format::BlobBytes(plan.schema().tensors()[key.position], width));
  return base::CheckedRoundUp(bytes, format::kBlobAlignment).value_or(bytes);
}

uint64_t IndexBytes(const WidthKey& key, format::Width width) {
  return key.padded_weights / 8 * format::StoredBits(width);
}

std::string MapText(const converter::TensorPlan& plan, std::span<const WidthKey> keys,
                    std::span<const format::Width> widths) {
  std::vector<format::Width> by_position(plan.schema().tensors().size(), format::Width::kCq4);
  for (size_t i = 0; i < keys.size(); ++i) by_position[keys[i].position] = widths[i];
  return quant::BitMapTextOf(plan.schema(), by_position, plan.selection().layers,
                             plan.selection().sites);
}

std::vector<format::Width> WidthsOf(const converter::TensorPlan& plan,
                                    std::span<const WidthKey> keys) {
  std::vector<format::Width> widths;
  for (const WidthKey& key : keys) widths.push_back(plan.widths()[key.position]);
  return widths;
}

}  // namespace needle::calibrate
