// converter/calibrate/self_text.h: text that a model writes itself, for those who have none.
#ifndef NEEDLE_CONVERTER_CALIBRATE_SELF_TEXT_H_
#define NEEDLE_CONVERTER_CALIBRATE_SELF_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "converter/calibrate/calibration_set.h"
#include "engine/tokenizer.h"
#include "engine/weight_source.h"

namespace needle::calibrate {

// Stands for a path in CalibrateOptions::data.
inline constexpr char kSelfText[] = "self";

struct SelfTextOptions {
  SetLimits limits;
  uint64_t seed = 1;
  size_t threads = 1;
  // After each example; false stops with Cancelled.
  std::function<bool(size_t tokens, size_t wanted)> progress;
};

// Requests that the float model samples (temperature 1) after BOS and the user header, each with
// its greedy answer after the assistant header; without such headers in the tokenizer, whole texts
// after BOS. As many as fit into half of max_tokens. The same text for the same seed on every
// machine and for every number of threads. Errors as of engine::Session.
absl::StatusOr<CalibrationSet> WriteSelfText(std::shared_ptr<const engine::WeightSource> source,
                                             const engine::Tokenizer& tokenizer,
                                             const SelfTextOptions& options);

// For a statistics file: the examples as [[answer_start, [ids]], ...].
base::Json SelfTextToJson(const CalibrationSet& set);
// The inverse. DataLoss: it is not such a list.
absl::StatusOr<CalibrationSet> SelfTextFromJson(const base::Json& json, const SetLimits& limits);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_SELF_TEXT_H_
