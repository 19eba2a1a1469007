#include "converter/leaf_container.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "converter/npz_file.h"
#include "converter/pickle_file.h"
#include "converter/safetensors_file.h"
#include "converter/safetensors_shards.h"

namespace needle::converter {
namespace {

constexpr char kIndexEnding[] = ".index.json";

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LeafContainer>> OpenLeafContainer(const std::string& path) {
  if (absl::EndsWith(path, absl::StrCat(".safetensors", kIndexEnding))) {
    return SafetensorsShards::Open(path);
  }
  if (absl::EndsWith(path, ".safetensors")) {
    const std::string index = path + kIndexEnding;
    if (!Exists(path) && Exists(index)) return SafetensorsShards::Open(index);
    return SafetensorsFile::Open(path);
  }
  if (absl::EndsWith(path, ".npz")) return NpzFile::Open(path);
  if (absl::EndsWith(path, ".pkl") || absl::EndsWith(path, ".pickle")) {
    return PickleFile::Open(path);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": the name ends in none of .safetensors, .safetensors.index.json, .npz, "
                   ".pkl, .pickle"));
}

}  // namespace needle::converter
