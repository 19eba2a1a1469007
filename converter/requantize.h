// converter/requantize.h: an archive with other widths. Specification: "Which width for which
// tensor: the bit map".
#ifndef NEEDLE_CONVERTER_REQUANTIZE_H_
#define NEEDLE_CONVERTER_REQUANTIZE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/build_report.h"
#include "converter/tensor_encoder.h"
#include "converter/tensor_plan.h"
#include "format/archive.h"
#include "quant/bit_map.h"

namespace needle::converter {

struct RequantizeOptions {
  quant::BitMap bit_map;  // blocks and sites are numbered as in the archive
  // Where weights come from: a plan of the archive's checkpoint at its depth, with the adapters
  // that the archive has. Null: the archive's own decoded weights, so that losses add up.
  const TensorPlan* from = nullptr;
  size_t threads = 0;  // 0: one per processor. Never shows in the bytes
  ProgressCallback progress;
  const TensorEncoder* encoder = nullptr;  // null: RoundToNearest()
};

// What a tensor whose width changed lost.
struct WidthChange {
  size_t position = 0;  // in the new archive's schema
  std::string name;
  std::string old_format;  // "CQ4", or "FP16" for a head's matrix
  format::Width new_width = format::Width::kCq2;
  // Mean squared difference of the two archives' decoded weights over the old ones' mean square.
  double added_loss = 0;
};

struct RequantizeReport {
  std::string path;
  uint64_t file_bytes = 0;
  double seconds = 0;
  bool from_archive = false;          // the losses add to those that the archive already has
  std::vector<TensorReport> tensors;  // in file order; unchanged ones have the recipe "copied"
  std::vector<WidthChange> changes;   // in file order
  std::vector<std::string> warnings;
};

// The plan that Requantize wants: `checkpoint` at the depth of `archive`. Errors as of
// TensorPlan::Make.
absl::StatusOr<TensorPlan> PlanForArchive(std::shared_ptr<const Checkpoint> checkpoint,
                                          const format::Archive& archive,
                                          const std::vector<std::string>& adapters,
                                          bool keep_confidence);

// Writes `archive` with the widths of the bit map to `target`. Tensors whose width stays are copied
// bit for bit, and so is the tokenizer; the codebooks are the archive's own; groups are of 128
// weights and heads' matrices 4-bit. Errors before any work: as of AtomicFile::CheckTarget.
// FailedPrecondition: `from` is not of the archive's model; names what differs.
absl::StatusOr<RequantizeReport> Requantize(const format::Archive& archive,
                                            const std::string& target,
                                            const RequantizeOptions& options);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_REQUANTIZE_H_
