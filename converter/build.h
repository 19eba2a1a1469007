// converter/build.h: a plan made into an archive.
#ifndef NEEDLE_CONVERTER_BUILD_H_
#define NEEDLE_CONVERTER_BUILD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/build_report.h"
#include "converter/tensor_encoder.h"
#include "converter/tensor_plan.h"
#include "quant/codebook.h"

namespace needle::converter {

struct BuildOptions {
  quant::CodebookKind codebook = quant::CodebookKind::kReference;
  size_t threads = 0;  // 0: one per processor. Never shows in the bytes
  ProgressCallback progress;
  const TensorEncoder* encoder = nullptr;  // null: RoundToNearest()
};

struct BuildReport {
  std::string path;
  uint64_t file_bytes = 0;
  double seconds = 0;
  std::vector<TensorReport> tensors;  // in file order
  std::vector<std::string> warnings;  // the plan's, then those about values
};

// Writes the archive of `plan` to `target` by the rules of AtomicFile, reopens it through
// format::Archive, and reports. The bytes depend on the plan, the codebook and the encoder alone.
// Errors before any work: as of AtomicFile::CheckTarget. DataLoss: a value is not finite or does
// not fit f16; names tensor, row and column. Nothing is left behind then.
absl::StatusOr<BuildReport> Build(const TensorPlan& plan, const std::string& target,
                                  const BuildOptions& options);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_BUILD_H_
