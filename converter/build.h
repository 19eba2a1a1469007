// converter/build.h: a plan made into an archive.
#ifndef NEEDLE_CONVERTER_BUILD_H_
#define NEEDLE_CONVERTER_BUILD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/tensor_encoder.h"
#include "converter/tensor_plan.h"
#include "quant/codebook.h"
#include "quant/encode.h"

namespace needle::converter {

struct BuildProgress {
  size_t tensors_done = 0;
  size_t num_tensors = 0;
  uint64_t values_done = 0;
  uint64_t num_values = 0;
};

struct BuildOptions {
  quant::CodebookKind codebook = quant::CodebookKind::kReference;
  size_t threads = 0;  // 0: one per processor. Never shows in the bytes
  // Called now and then from one thread at a time, in order of progress. Returning false stops the
  // build with Cancelled, and nothing is left behind.
  std::function<bool(const BuildProgress&)> progress;
  const TensorEncoder* encoder = nullptr;  // null: RoundToNearest()
};

struct TensorReport {
  std::string name;  // canonical
  format::DType dtype = format::DType::kF16;
  std::vector<uint32_t> shape;
  std::optional<format::Width> width;  // CQ only
  uint64_t num_bytes = 0;
  quant::EncodeStats stats;  // CQ only; stats.RelativeError() against TheoreticalDistortion(width)
  uint64_t vanished_values = 0;  // FP16 only: not zero in the input, zero in the archive
  std::string recipe;            // CQ only
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
// InvalidArgument: `target` is an input or cannot be written (before any work). DataLoss: a value
// is not finite or does not fit f16; names tensor, row and column. Nothing is left behind then.
absl::StatusOr<BuildReport> Build(const TensorPlan& plan, const std::string& target,
                                  const BuildOptions& options);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_BUILD_H_
