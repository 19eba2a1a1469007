// converter/manifest.h: what archives were made of and what they hold, in a form that can be
// checked and that the same inputs make again byte for byte.
#ifndef NEEDLE_CONVERTER_MANIFEST_H_
#define NEEDLE_CONVERTER_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "converter/build_report.h"

namespace needle::converter {

struct ManifestArchive {
  std::string path;
  // As reported when it was made, in file order, for the errors; or empty.
  std::vector<TensorReport> tensors;
};

struct ManifestRequest {
  std::string tool_version;
  base::Json options;               // of the command, an object
  std::vector<std::string> inputs;  // files
  std::vector<ManifestArchive> archives;
};

// The manifest. Files are named without their folders: archives belong beside the manifest. Fields:
//   manifest_version 1, tool {name, version}, created (UTC; only when SOURCE_DATE_EPOCH is set),
//   options, inputs [{file, bytes, sha256}],
//   archives [{file, bytes, sha256, generation, num_layers, tensors [{name, dtype, shape, width
//   (CQ),
//              bytes, sha256, nmse (where reported)}]}]
// Errors as of MappedFile::Open and Archive::Open; InvalidArgument: two archives of one name, or
// SOURCE_DATE_EPOCH is no number.
absl::StatusOr<base::Json> MakeManifest(const ManifestRequest& request);

// Writes it, indented, by the rules of AtomicFile.
absl::Status WriteManifest(const base::Json& manifest, const std::string& target);

struct ManifestCheck {
  size_t archives = 0;
  size_t tensors = 0;
  size_t inputs = 0;          // those that are beside the manifest
  size_t inputs_missing = 0;  // those that are not: not an error
  // What differs from the manifest, a line each: file, tensor, found, wanted. Empty: all is as it
  // says.
  std::vector<std::string> differences;
};

// Checks the archives beside the manifest, and inputs that are there too. DataLoss: not a manifest.
absl::StatusOr<ManifestCheck> VerifyManifest(const std::string& path);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_MANIFEST_H_
