// converter/manifest.h: what archives were made of and what they hold, in a form that can be
// checked and that the same inputs make again byte for byte.
#ifndef NEEDLE_CONVERTER_MANIFEST_H_
#define NEEDLE_CONVERTER_MANIFEST_H_

#include <cstdint>
#include <span>
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

inline constexpr int kManifestVersion = 1;

// The manifest. Files are named without their folders: archives belong beside the manifest. Fields:
//   manifest_version 1, tool {name, version}, created (UTC; only when SOURCE_DATE_EPOCH is set),
//   options, inputs [{file, bytes, sha256}],
//   archives [{file, bytes, sha256, generation, num_layers, tensors [{name, dtype, shape, width
//   (CQ),
//              bytes, sha256, nmse (where reported)}]}]
// Errors as of MappedFile::Open and Archive::Open; InvalidArgument: two archives of one name, a
// name that is not UTF-8, or SOURCE_DATE_EPOCH is no number.
absl::StatusOr<base::Json> MakeManifest(const ManifestRequest& request);

// That the manifest at `target` could be checked: each archive is in its folder. InvalidArgument
// naming one that is not.
absl::Status CheckBeside(const std::string& target, std::span<const std::string> archives);
// That a file's name can stand in a manifest, which is UTF-8. InvalidArgument.
absl::Status CheckManifestName(const std::string& path);

// Writes it, indented, by the rules of AtomicFile.
absl::Status WriteManifest(const base::Json& manifest, const std::string& target);
// The sums of its archives as sha256sum writes and checks them, likewise. A name with a backslash,
// a line feed or a carriage return is escaped, and its line begins with a backslash.
absl::Status WriteSums(const base::Json& manifest, const std::string& target);

// What the manifest says of a file or an archive, from the file itself.
absl::StatusOr<base::Json> DescribeFile(const std::string& path);
absl::StatusOr<base::Json> DescribeArchive(const ManifestArchive& archive);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_MANIFEST_H_
