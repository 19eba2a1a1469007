// converter/archive_source.h: an archive's decoded weights as a TensorSource.
#ifndef NEEDLE_CONVERTER_ARCHIVE_SOURCE_H_
#define NEEDLE_CONVERTER_ARCHIVE_SOURCE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/tensor_source.h"
#include "format/archive.h"
#include "quant/codebook.h"

namespace needle::converter {

// Positions are those of archive.schema(). Rows of a tensor that is stored as FP16 or FP32 are its
// values as they stand.
class ArchiveSource final : public TensorSource {
 public:
  // `archive` must outlive the source. Errors as of quant::CodebookFor.
  static absl::StatusOr<ArchiveSource> Make(const format::Archive& archive);

  absl::Status ReadRows(size_t position, uint64_t first, uint64_t count,
                        std::span<float> values) const override;

 private:
  explicit ArchiveSource(const format::Archive& archive) : archive_(&archive) {}

  const format::Archive* archive_;
  std::vector<std::optional<quant::Codebook>> codebooks_;  // of each CQ tensor
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_ARCHIVE_SOURCE_H_
