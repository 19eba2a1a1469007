#include "converter/checkpoint.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace needle::converter {
namespace {

constexpr int kFormatVersion = 2;

absl::Status CheckVersion(const LeafContainer& container, const std::string& path) {
  if (!container.is_versioned()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<base::Json> version, container.Metadata("format_version"));
  if (version == base::Json(kFormatVersion)) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("%s: format_version %s, want %d", path,
                                             version ? base::DumpJson(*version) : "is missing",
                                             kFormatVersion));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint());
  checkpoint->path_ = path;
  ASSIGN_OR_RETURN(checkpoint->container_, OpenLeafContainer(path));
  RETURN_IF_ERROR(CheckVersion(*checkpoint->container_, path));
  ASSIGN_OR_RETURN(std::optional<base::Json> config, checkpoint->container_->Metadata("config"));
  if (!config || !config->is_object()) {
    return absl::DataLossError(absl::StrFormat("%s: config %s, want a JSON object", path,
                                               config ? "is none" : "is missing"));
  }
  checkpoint->config_ = *std::move(config);
  return checkpoint;
}

std::optional<size_t> Checkpoint::Find(std::string_view name) const {
  return FindLeaf(leaves(), name);
}

}  // namespace needle::converter
