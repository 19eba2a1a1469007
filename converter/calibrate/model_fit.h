// converter/calibrate/model_fit.h: all matrices of a model, one after the other, each under the
// inputs that the choices before it lead to. Order of operations: docs/quantisation.md.
#ifndef NEEDLE_CONVERTER_CALIBRATE_MODEL_FIT_H_
#define NEEDLE_CONVERTER_CALIBRATE_MODEL_FIT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "converter/calibrate/activations.h"
#include "converter/calibrate/calibrate.h"
#include "converter/calibrate/calibration_set.h"
#include "converter/calibrate/encoded_tensors.h"
#include "converter/calibrate/matrix_fit.h"
#include "converter/calibrate/rows_fitter.h"
#include "converter/calibrate/stats_file.h"
#include "converter/tensor_plan.h"
#include "engine/layer_runner.h"

namespace needle::calibrate {

// One run of a data-driven recipe. Used once.
class ModelFit {
 public:
  // All arguments outlive this. `plain`: the plan by plain rounding. `stats` may be null; moments
  // are taken from it or given to it. `report` has the counts of `set`, and gets tensors, warnings
  // and memory.
  ModelFit(std::shared_ptr<const converter::TensorPlan> plan, const EncodedTensors& plain,
           const CalibrationSet& set, const CalibrateOptions& options, StatsFile* stats,
           base::ThreadPool& pool, CalibrationReport& report);

  // Errors as of Calibrate.
  absl::StatusOr<std::shared_ptr<const EncodedTensors>> Run();

 private:
  struct DenseMoments {
    quant::DenseMatrix inputs;
    std::optional<quant::DenseMatrix> cross;  // with the float model's inputs
  };
  // The fit or the guard part.
  struct Part {
    std::span<const Example> examples;
    Streams wanted;  // in the float model
    Streams found;   // in the quantised model, when it runs
  };

  bool sequential() const { return options_.recipe == Recipe::kBest && options_.steps.sequential; }
  bool reads_stats() const { return stats_ != nullptr && stats_->is_reading(); }
  bool fits_tables() const { return options_.recipe == Recipe::kBest && options_.steps.tables; }

  // Both parts back to the embedding's outputs: in the float model, or in the quantised one.
  absl::Status EmbedWanted();
  absl::Status EmbedFound();
  absl::Status FitHeads();
  absl::Status FitEmbedding();
  absl::Status FitLayer(size_t layer);
  absl::Status FitPart(size_t layer, engine::LayerPart part, std::span<const TensorRows> tensors);
  absl::Status FitTables(uint32_t site);

  absl::StatusOr<DenseMoments> MeasureHead(const engine::LayerModel& ends, bool answers);
  absl::StatusOr<DenseMoments> MeasureLayer(const engine::LayerModel* found_layer,
                                            engine::LayerPart part);
  // The metric of a part's inputs on the fit part; nothing when there is nothing to fit to.
  absl::StatusOr<std::optional<InputMetric>> Measure(size_t layer,
                                                     const engine::LayerModel* found_layer,
                                                     engine::LayerPart part);
  absl::StatusOr<GuardInputs> CollectGuard(const engine::LayerModel* found_layer,
                                           engine::LayerPart part);

  TensorRows Whole(format::TensorRole role, uint32_t index) const;
  TensorRows LayerRows(format::TensorRole role, size_t layer) const;
  absl::Status Tell(size_t done);
  void WarnOfInputs(engine::LayerPart part, size_t layer, const InputMetric& input);

  std::shared_ptr<const converter::TensorPlan> plan_;
  const CalibrateOptions& options_;
  StatsFile* stats_;
  base::ThreadPool& pool_;
  CalibrationReport& report_;
  RowsFitter rows_;
  std::shared_ptr<const engine::WeightSource> wanted_source_;
  std::shared_ptr<const engine::WeightSource> found_source_;
  ActivationRunner wanted_runner_;
  ActivationRunner found_runner_;
  Part fit_;
  Part guard_;
  std::map<engine::LayerPart, std::pair<uint64_t, std::string>> dead_;  // most channels, layers
};

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_MODEL_FIT_H_
