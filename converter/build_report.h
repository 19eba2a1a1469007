// converter/build_report.h: what writing an archive tells, while it runs and afterwards.
#ifndef NEEDLE_CONVERTER_BUILD_REPORT_H_
#define NEEDLE_CONVERTER_BUILD_REPORT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "format/schema.h"
#include "format/width.h"
#include "quant/encode.h"

namespace needle::converter {

struct BuildProgress {
  size_t tensors_done = 0;
  size_t num_tensors = 0;
  uint64_t values_done = 0;
  uint64_t num_values = 0;
};

// Called now and then from one thread at a time, in order of progress. Returning false stops the
// work with Cancelled, and nothing is left behind.
using ProgressCallback = std::function<bool(const BuildProgress&)>;

struct TensorReport {
  std::string name;  // canonical
  format::DType dtype = format::DType::kF16;
  std::vector<uint32_t> shape;
  std::optional<format::Width> width;  // CQ only
  uint64_t num_bytes = 0;
  quant::EncodeStats stats;  // CQ only; stats.RelativeError() against TheoreticalDistortion(width)
  uint64_t vanished_values = 0;  // FP16 only: not zero in the input, zero in the archive
  std::string recipe;            // CQ only: the encoder's, or "copied"
};

// What the user should know of the values: vanishing norms and the like, a line a tensor.
std::vector<std::string> ValueWarnings(const std::vector<TensorReport>& tensors);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_BUILD_REPORT_H_
