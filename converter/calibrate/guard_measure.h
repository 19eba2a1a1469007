// converter/calibrate/guard_measure.h: a quantised model against its float checkpoint on examples
// that were held out.
#ifndef NEEDLE_CONVERTER_CALIBRATE_GUARD_MEASURE_H_
#define NEEDLE_CONVERTER_CALIBRATE_GUARD_MEASURE_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "converter/calibrate/calibrate.h"
#include "converter/calibrate/calibration_set.h"
#include "engine/model.h"
#include "engine/tokenizer.h"
#include "engine/weight_source.h"

namespace needle::calibrate {

struct GuardPair {
  GuardMeasure reference;  // the float model: perplexity only
  GuardMeasure measured;
};

// Measures on the guard part of `set`, or on the fit part when nothing was held out. Examples from
// JSON Lines: at the positions that predict the answer; others: at all positions.
class GuardMeter {
 public:
  // All arguments outlive this. Loads the float model. Errors as of engine::Model::Load.
  static absl::StatusOr<GuardMeter> Make(std::shared_ptr<const engine::WeightSource> reference,
                                         const CalibrationSet& set,
                                         const engine::Tokenizer& tokenizer,
                                         size_t max_example_tokens, size_t threads);

  // The model of `source` in a8 numerics. Errors as of verify::Evaluate.
  absl::StatusOr<GuardPair> Measure(std::shared_ptr<const engine::WeightSource> source) const;

 private:
  GuardMeter(engine::Model reference, const CalibrationSet& set, const engine::Tokenizer& tokenizer,
             size_t max_example_tokens, size_t threads);

  engine::Model reference_;
  const CalibrationSet& set_;
  const engine::Tokenizer& tokenizer_;
  size_t max_example_tokens_;
  size_t threads_;
};

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_GUARD_MEASURE_H_
