// converter/calibrate/kl_meter.h: many models against one, which is run once.
#ifndef NEEDLE_CONVERTER_CALIBRATE_KL_METER_H_
#define NEEDLE_CONVERTER_CALIBRATE_KL_METER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "converter/calibrate/calibration_set.h"
#include "converter/verify/divergence.h"
#include "engine/model.h"

namespace needle::calibrate {

struct KlFigures {
  uint64_t positions = 0;
  double kl_mean = 0;
  double top1 = 0;
  double sequences_exact = 0;  // examples where every most likely token is the reference's
};

using ExampleScores = std::vector<std::vector<verify::PositionScore>>;  // [example][position]
KlFigures SumUp(std::span<const std::vector<verify::PositionScore>> examples);

// Keeps the reference's logits at the positions that predict the examples' answers (all positions
// of an example without one): 4 * vocabulary bytes each.
class KlMeter {
 public:
  // `reference` is used during the call only, `pool` as long as this lives. Errors as of
  // engine::Session::Prefill.
  static absl::StatusOr<KlMeter> Make(const engine::Model& reference, std::vector<Example> examples,
                                      base::ThreadPool& pool);

  // `model`: of the reference's vocabulary, with one thread a session. DataLoss: logits that are
  // not finite. Otherwise as of Make. The same scores for any number of threads. `step`: only every
  // so many examples, from the first one on.
  absl::StatusOr<ExampleScores> Measure(const engine::Model& model, size_t step = 1) const;

  const std::vector<Example>& examples() const { return examples_; }

 private:
  KlMeter(std::vector<Example> examples, base::ThreadPool& pool)
      : examples_(std::move(examples)), pool_(&pool) {}

  std::vector<Example> examples_;
  base::ThreadPool* pool_;
  std::vector<std::vector<float>> logits_;  // of the reference, by example
};

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_KL_METER_H_
