#include "converter/archive_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "quant/encode.h"

namespace needle::converter {

absl::StatusOr<ArchiveSource> ArchiveSource::Make(const format::Archive& archive) {
  ArchiveSource source(archive);
  for (size_t i = 0; i < archive.records().size(); ++i) {
    source.codebooks_.emplace_back();
    if (archive.schema().tensors()[i].dtype != format::DType::kCq) continue;
    ASSIGN_OR_RETURN(source.codebooks_.back(), quant::CodebookFor(archive.Cq(i)));
  }
  return source;
}

absl::Status ArchiveSource::ReadRows(size_t position, uint64_t first, uint64_t count,
                                     std::span<float> values) const {
  const format::TensorSpec& spec = archive_->schema().tensors()[position];
  if (spec.dtype == format::DType::kCq) {
    return quant::DecodeRows(archive_->Cq(position), *codebooks_[position], first, count, values);
  }
  const uint64_t cols = TensorCols(spec);
  if (first > TensorRows(spec) || count > TensorRows(spec) - first ||
      values.size() != count * cols) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: rows %d to %d into %d values, it is %s", spec.name, first,
                        first + count, values.size(), format::ShapeText(spec.shape)));
  }
  const std::vector<float> all = archive_->Floats(position);
  std::copy_n(all.begin() + static_cast<int64_t>(first * cols), values.size(), values.begin());
  return absl::OkStatus();
}

}  // namespace needle::converter
