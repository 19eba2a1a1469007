// Configs from arbitrary text: what is accepted is a geometry that can run.
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "converter/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = needle::base::ParseJson({reinterpret_cast<const char*>(data), size});
  if (!json.ok() || !json->is_object()) return 0;
  const auto config = needle::converter::ModelConfig::FromJson(*json);
  if (config.ok() && !needle::format::CheckGeometry(config->geometry).ok()) std::abort();
  return 0;
}
