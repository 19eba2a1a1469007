#include "converter/manifest.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "format/archive.h"

namespace needle::converter {
namespace {

using base::Json;

constexpr int kManifestVersion = 1;

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

absl::StatusOr<std::optional<std::string>> CreationTime() {
  const char* text = std::getenv("SOURCE_DATE_EPOCH");
  if (text == nullptr) return std::nullopt;
  int64_t seconds = 0;
  if (!absl::SimpleAtoi(text, &seconds)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("SOURCE_DATE_EPOCH is \"%s\", want a number of seconds", text));
  }
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

absl::StatusOr<Json> DescribeFile(const std::string& path) {
  ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  return Json{{"file", FileName(path)},
              {"bytes", file.bytes().size()},
              {"sha256", base::Sha256Hex(file.bytes())}};
}

Json DescribeTensor(const format::Archive& archive, size_t position, const TensorReport* report) {
  const format::TensorSpec& spec = archive.schema().tensors()[position];
  Json tensor = {{"name", spec.name},
                 {"dtype", std::string(format::DTypeName(spec.dtype))},
                 {"shape", spec.shape}};
  if (spec.dtype == format::DType::kCq) {
    tensor["width"] = std::string(format::WidthText(archive.Cq(position).width));
  }
  tensor["bytes"] = archive.Blob(position).size();
  tensor["sha256"] = base::Sha256Hex(archive.Blob(position));
  if (report != nullptr && report->stats.groups > 0) {
    tensor["nmse"] = report->stats.RelativeError();
  }
  return tensor;
}

absl::StatusOr<Json> DescribeArchive(const ManifestArchive& request) {
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(request.path));
  const size_t num_tensors = archive.records().size();
  if (!request.tensors.empty() && request.tensors.size() != num_tensors) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: %d reports for %d tensors", request.path,
                                                      request.tensors.size(), num_tensors));
  }
  Json tensors = Json::array();
  for (size_t i = 0; i < num_tensors; ++i) {
    tensors.push_back(
        DescribeTensor(archive, i, request.tensors.empty() ? nullptr : &request.tensors[i]));
  }
  return Json{{"file", FileName(request.path)},
              {"bytes", archive.bytes().size()},
              {"sha256", base::Sha256Hex(archive.bytes())},
              {"generation", format::GenerationName(archive.geometry().generation)},
              {"num_layers", archive.geometry().num_layers},
              {"tensors", std::move(tensors)}};
}

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

}  // namespace

absl::StatusOr<Json> MakeManifest(const ManifestRequest& request) {
  Json manifest = {{"manifest_version", kManifestVersion},
                   {"tool", {{"name", "needle-build"}, {"version", request.tool_version}}}};
  ASSIGN_OR_RETURN(const auto created, CreationTime());
  if (created) manifest["created"] = *created;
  manifest["options"] = request.options;
  manifest["inputs"] = Json::array();
  for (const std::string& input : request.inputs) {
    ASSIGN_OR_RETURN(Json file, DescribeFile(input));
    manifest["inputs"].push_back(std::move(file));
  }
  manifest["archives"] = Json::array();
  std::set<std::string> names;
  for (const ManifestArchive& archive : request.archives) {
    if (!names.insert(FileName(archive.path)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(archive.path, ": another archive has that name"));
    }
    ASSIGN_OR_RETURN(Json described, DescribeArchive(archive));
    manifest["archives"].push_back(std::move(described));
  }
  return manifest;
}

absl::Status WriteManifest(const Json& manifest, const std::string& target) {
  const std::string text = base::DumpJsonPretty(manifest) + "\n";
  ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(target));
  RETURN_IF_ERROR(file.Append({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return file.Commit();
}

absl::StatusOr<ManifestCheck> VerifyManifest(const std::string& path) {
  ASSIGN_OR_RETURN(const Json manifest, ReadManifest(path));
  ManifestCheck check;
  for (const Json& archive : manifest["archives"]) {
    RETURN_IF_ERROR(CheckArchive(path, archive, check));
  }
  for (const Json& input : manifest["inputs"]) RETURN_IF_ERROR(CheckInput(path, input, check));
  return check;
}

}  // namespace needle::converter
