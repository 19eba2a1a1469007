#include "converter/manifest_check.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "converter/manifest.h"
#include "format/header.h"

namespace needle::converter {
namespace {

using base::Json;

absl::StatusOr<Json> ReadManifest(const std::string& path) {
  ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  auto json =
      base::ParseJson({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  if (!json.ok()) return base::WithContext(json.status(), path);
  const auto list = [&](const char* key) {
    const auto found = json->find(key);
    return found != json->end() && found->is_array();
  };
  if (!json->is_object() || json->value("manifest_version", Json()) != kManifestVersion ||
      !list("inputs") || !list("archives")) {
    return absl::DataLossError(absl::StrFormat(
        "%s: not a manifest of version %d with inputs and archives", path, kManifestVersion));
  }
  return *std::move(json);
}

// The value of a key, or null when `object` is none or lacks it.
Json Value(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? Json() : *found;
}

// Notes each of `keys` in which `found` is not as the manifest says.
void Compare(const std::string& where, const Json& found, const Json& want,
             std::initializer_list<const char*> keys, std::vector<std::string>& differences) {
  for (const char* key : keys) {
    if (Value(found, key) == Value(want, key)) continue;
    differences.push_back(absl::StrFormat("%s: %s %s, want %s", where, key,
                                          base::DumpJson(Value(found, key)),
                                          base::DumpJson(Value(want, key))));
  }
}

// A plain file name of an entry. DataLoss: it would lead elsewhere.
absl::StatusOr<std::string> EntryFile(const std::string& manifest, const Json& entry) {
  const Json file = Value(entry, "file");
  if (file.is_string()) {
    const auto name = file.get<std::string>();
    if (!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos) {
      return (std::filesystem::path(manifest).parent_path() / name).string();
    }
  }
  return absl::DataLossError(
      absl::StrFormat("%s: file %s, want a name without a folder", manifest, base::DumpJson(file)));
}

void CheckTensors(const std::string& path, const Json& found, const Json& want,
                  ManifestCheck& check) {
  const Json found_tensors = Value(found, "tensors");
  const Json want_tensors = Value(want, "tensors");
  if (!want_tensors.is_array() || found_tensors.size() != want_tensors.size()) {
    check.differences.push_back(absl::StrFormat("%s: %d tensors, want %d", path,
                                                found_tensors.size(), want_tensors.size()));
    return;
  }
  for (size_t i = 0; i < found_tensors.size(); ++i) {
    Compare(absl::StrCat(path, ": ", found_tensors[i]["name"].get<std::string>()), found_tensors[i],
            want_tensors[i], {"name", "dtype", "shape", "width", "bytes", "sha256"},
            check.differences);
    ++check.tensors;
  }
}

absl::Status CheckArchive(const std::string& manifest, const Json& want, ManifestCheck& check) {
  ASSIGN_OR_RETURN(const std::string path, EntryFile(manifest, want));
  ++check.archives;
  const auto found = DescribeArchive({.path = path, .tensors = {}});
  if (!found.ok()) {
    check.differences.emplace_back(found.status().message());
    return absl::OkStatus();
  }
  Compare(path, *found, want, {"bytes", "sha256", "generation", "num_layers"}, check.differences);
  CheckTensors(path, *found, want, check);
  return absl::OkStatus();
}

absl::Status CheckInput(const std::string& manifest, const Json& want, ManifestCheck& check) {
  ASSIGN_OR_RETURN(const std::string path, EntryFile(manifest, want));
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    ++check.inputs_missing;
    return absl::OkStatus();
  }
  ++check.inputs;
  ASSIGN_OR_RETURN(const Json found, DescribeFile(path));
  Compare(path, found, want, {"bytes", "sha256"}, check.differences);
  return absl::OkStatus();
}

// Whether the file at `path`, which no manifest names, is one that it should.
bool IsArchive(const std::filesystem::path& path) {
  if (path.extension() == ".cact") return true;
  const auto file = base::MappedFile::Open(path.string());
  return file.ok() && format::HasArchiveTag(file->bytes());
}

}  // namespace

std::vector<std::string> UnlistedArchives(const std::string& path, const Json& manifest) {
  std::set<std::string> listed;
  for (const Json& archive : manifest["archives"]) {
    if (const Json file = Value(archive, "file"); file.is_string()) listed.insert(file);
  }
  std::vector<std::string> unlisted;
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  for (const auto& entry :
       std::filesystem::directory_iterator(parent.empty() ? "." : parent, error)) {
    const std::string name = entry.path().filename();
    if (!listed.contains(name) && IsArchive(entry.path()))
      unlisted.push_back((parent / name).string());
  }
  std::sort(unlisted.begin(), unlisted.end());
  return unlisted;
}

absl::StatusOr<ManifestCheck> VerifyManifest(const std::string& path) {
  ASSIGN_OR_RETURN(const Json manifest, ReadManifest(path));
  ManifestCheck check;
  for (const Json& archive : manifest["archives"]) {
    RETURN_IF_ERROR(CheckArchive(path, archive, check));
  }
  for (const Json& input : manifest["inputs"]) RETURN_IF_ERROR(CheckInput(path, input, check));
  if (check.archives == 0)
    check.differences.push_back(path + ": lists no archives, so none is proved");
  check.unlisted = UnlistedArchives(path, manifest);
  return check;
}

}  // namespace needle::converter
