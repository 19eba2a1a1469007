#include "converter/leaf_container.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "converter/safetensors_file.h"

namespace needle::converter {

absl::StatusOr<std::unique_ptr<LeafContainer>> OpenLeafContainer(const std::string& path) {
  if (absl::EndsWith(path, ".safetensors")) return SafetensorsFile::Open(path);
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": the name ends in none of .safetensors, .safetensors.index.json, .npz, "
                   ".pkl, .pickle"));
}

}  // namespace needle::converter
