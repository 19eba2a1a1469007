#include "converter/manifest.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/output_place.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "format/archive.h"

namespace needle::converter {
namespace {

using base::Json;

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

// As GNU's checksum tools write a name.
std::string EscapedName(const std::string& name) {
  return absl::StrReplaceAll(name, {{"\\", "\\\\"}, {"\n", "\\n"}, {"\r", "\\r"}});
}

absl::Status WriteText(const std::string& text, const std::string& target) {
  ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(target));
  RETURN_IF_ERROR(file.Append({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return file.Commit();
}

}  // namespace

absl::StatusOr<Json> DescribeFile(const std::string& path) {
  ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  return Json{{"file", FileName(path)},
              {"bytes", file.bytes().size()},
              {"sha256", base::Sha256Hex(file.bytes())}};
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

absl::StatusOr<Json> MakeManifest(const ManifestRequest& request) {
  Json manifest = {{"manifest_version", kManifestVersion},
                   {"tool", {{"name", "needle-build"}, {"version", request.tool_version}}}};
  ASSIGN_OR_RETURN(const auto created, CreationTime());
  if (created) manifest["created"] = *created;
  for (const std::string& input : request.inputs) RETURN_IF_ERROR(CheckManifestName(input));
  for (const ManifestArchive& archive : request.archives)
    RETURN_IF_ERROR(CheckManifestName(archive.path));
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

absl::Status CheckBeside(const std::string& target, std::span<const std::string> archives) {
  const auto folder = base::Stat(base::FolderOf(target));
  for (const std::string& archive : archives) {
    const auto beside = base::Stat(base::FolderOf(archive));
    if (folder && beside && folder->st_dev == beside->st_dev && folder->st_ino == beside->st_ino)
      continue;
    return absl::InvalidArgumentError(absl::StrCat(target, ": the archive ", archive,
                                                   " is not in its folder, so the manifest could "
                                                   "not be checked; write it beside the archives"));
  }
  return absl::OkStatus();
}

absl::Status CheckManifestName(const std::string& path) {
  const std::string name = FileName(path);
  if (base::FindInvalidUtf8(name) == name.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the file's name is not UTF-8, so a manifest cannot hold it; rename it"));
}

absl::Status WriteManifest(const Json& manifest, const std::string& target) {
  return WriteText(base::DumpJsonPretty(manifest) + "\n", target);
}

absl::Status WriteSums(const Json& manifest, const std::string& target) {
  std::string sums;
  for (const Json& archive : manifest["archives"]) {
    const auto name = archive["file"].get<std::string>();
    const std::string escaped = EscapedName(name);
    absl::StrAppend(&sums, escaped == name ? "" : "\\", archive["sha256"].get<std::string>(), "  ",
                    escaped, "\n");
  }
  return WriteText(sums, target);
}

}  // namespace needle::converter
