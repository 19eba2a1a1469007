#include "engine/archive_weights.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "quant/encode.h"

namespace needle::engine {

using format::DType;
using format::TensorId;

absl::StatusOr<std::shared_ptr<const ArchiveWeights>> ArchiveWeights::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(format::Archive archive, format::Archive::Open(path));
  return std::make_shared<const ArchiveWeights>(std::move(archive));
}

absl::StatusOr<std::vector<float>> ArchiveWeights::Floats(TensorId id) const {
  const std::optional<size_t> position = schema().Find(id);
  if (!position.has_value() || schema().tensors()[*position].dtype == DType::kRaw) {
    return absl::NotFoundError(absl::StrFormat("%s: no tensor of numbers %s %d", name(),
                                               std::string(format::RoleName(id.role)), id.index));
  }
  if (schema().tensors()[*position].dtype != DType::kCq) return archive_.Floats(*position);
  const format::CqView view = archive_.Cq(*position);
  ASSIGN_OR_RETURN(const quant::Codebook codebook, quant::CodebookFor(view));
  std::vector<float> values(view.layout.rows * view.layout.cols);
  RETURN_IF_ERROR(quant::DecodeRows(view, codebook, 0, view.layout.rows, values));
  return values;
}

std::optional<format::CqView> ArchiveWeights::Packed(TensorId id) const {
  const std::optional<size_t> position = schema().Find(id);
  if (!position.has_value() || schema().tensors()[*position].dtype != DType::kCq) {
    return std::nullopt;
  }
  return archive_.Cq(*position);
}

}  // namespace needle::engine
