// converter/model_config.h: a saved config made into a geometry. Specification: "Which generation",
// "Config keys and what a missing one means", "Header fields from the config".
#ifndef NEEDLE_CONVERTER_MODEL_CONFIG_H_
#define NEEDLE_CONVERTER_MODEL_CONFIG_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "format/geometry.h"
#include "format/schema.h"

namespace needle::converter {

// A key of the table, for documentation and tests.
struct ConfigKey {
  std::string_view name;
  std::string_view missing;  // what a config without it means, as JSON
};

// The keys that are read, in the specification's order.
std::span<const ConfigKey> ConfigKeys(format::Generation generation);

struct ModelConfig {
  // Of the whole model; passes CheckGeometry; kv_window is the header's (effective) one.
  format::Geometry geometry;
  uint32_t kv_window = 0;              // as configured; 0: by the budget alone
  std::vector<uint32_t> ladder_order;  // empty, or a permutation of the layers
  bool split_permutations = false;     // ladder_widths is not empty
  // Shape of each kind of head as the config says, indexed by HeadKind. Needle 2 configs do not say
  // `probes`: 0.
  std::array<format::HeadShape, 4> heads;

  // DataLoss naming key, value found and value wanted; also for a geometry that cannot run.
  // Unimplemented: a key of an experimental variant that no archive can hold.
  static absl::StatusOr<ModelConfig> FromJson(const base::Json& config);
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_MODEL_CONFIG_H_
