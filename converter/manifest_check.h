// converter/manifest_check.h: whether archives are as their manifest says.
#ifndef NEEDLE_CONVERTER_MANIFEST_CHECK_H_
#define NEEDLE_CONVERTER_MANIFEST_CHECK_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace needle::converter {

struct ManifestCheck {
  size_t archives = 0;
  size_t tensors = 0;
  size_t inputs = 0;          // those that are beside the manifest
  size_t inputs_missing = 0;  // those that are not: not an error
  // What differs from the manifest, a line each: file, tensor, found, wanted. Empty: all is as it
  // says.
  std::vector<std::string> differences;
  // Archives in its folder that it does not list, by path.
  std::vector<std::string> unlisted;
};

// Checks the archives beside the manifest, and inputs that are there too. A manifest without
// archives proves nothing, which is a difference. DataLoss: not a manifest.
absl::StatusOr<ManifestCheck> VerifyManifest(const std::string& path);

// Archives in the folder of the manifest at `path` that it does not list, by path in ascending
// order.
std::vector<std::string> UnlistedArchives(const std::string& path, const base::Json& manifest);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_MANIFEST_CHECK_H_
