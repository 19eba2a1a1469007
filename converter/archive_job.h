// converter/archive_job.h: tensors from a source encoded and written, over threads. What Build and
// Requantize have in common.
#ifndef NEEDLE_CONVERTER_ARCHIVE_JOB_H_
#define NEEDLE_CONVERTER_ARCHIVE_JOB_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/build_report.h"
#include "converter/tensor_encoder.h"
#include "converter/tensor_source.h"
#include "format/record.h"

namespace needle::converter {

// Everything is borrowed and must outlive the call.
struct ArchiveJob {
  std::string input;  // for messages: where the values come from
  const format::ArchiveLayout* layout = nullptr;
  std::span<const float> codebooks;  // kCodebookLength values
  const TensorSource* source = nullptr;
  std::span<const uint8_t> tokenizer;  // the attachment, when the schema has one
  const TensorEncoder* encoder = nullptr;
  // A blob for each tensor that is written as it stands, empty for those to be made; or no element
  // at all.
  std::vector<std::span<const uint8_t>> copies;
  size_t threads = 0;
  ProgressCallback progress;
};

// Writes the archive to `target` by the rules of AtomicFile and returns a report for each tensor.
// The bytes do not depend on `threads`. DataLoss: a value is not finite or does not fit f16; the
// first one in file order is named. Cancelled: by the callback.
absl::StatusOr<std::vector<TensorReport>> WriteArchive(const ArchiveJob& job,
                                                       const std::string& target);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_ARCHIVE_JOB_H_
