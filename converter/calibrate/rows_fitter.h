// converter/calibrate/rows_fitter.h: chooses indices and norms of some rows of a matrix, keeps them
// where they are better than plain rounding, and records both.
#ifndef NEEDLE_CONVERTER_CALIBRATE_ROWS_FITTER_H_
#define NEEDLE_CONVERTER_CALIBRATE_ROWS_FITTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "converter/calibrate/activations.h"
#include "converter/calibrate/calibrate.h"
#include "converter/calibrate/encoded_tensors.h"
#include "converter/calibrate/matrix_fit.h"
#include "converter/tensor_plan.h"

namespace needle::calibrate {

// Rows of a tensor that read the same inputs: all of them, or one layer's of an mhc_phi.
struct TensorRows {
  size_t position = 0;
  uint64_t first = 0;
  uint64_t count = 0;
  std::string name;
};

// Inputs that were held out of the fit.
struct GuardInputs {
  Inputs wanted;  // of the float model
  Inputs found;   // of the quantised model; empty: the same
};

class RowsFitter {
 public:
  // All arguments outlive this. `plain`: the plan by plain rounding. `report` gets tensors and
  // warnings.
  RowsFitter(const converter::TensorPlan& plan, const EncodedTensors& plain,
             const CalibrateOptions& options, base::ThreadPool& pool, CalibrationReport& report);

  // What was chosen so far, by position; tensors that no call named are empty.
  const std::shared_ptr<EncodedTensors>& chosen() const { return chosen_; }

  // By error feedback. No input: there is nothing to fit to. No guard: nothing was held out.
  // DataLoss: a weight is not finite.
  absl::Status Fit(const TensorRows& rows, const InputMetric* input, const GuardInputs* guard);
  // By norm search, for rows whose inputs are not known. Errors as of Fit.
  absl::Status Search(const TensorRows& rows);
  // The whole tensor by plain rounding.
  void KeepPlain(size_t position);

 private:
  bool polishes() const { return options_.recipe == Recipe::kBest && options_.steps.polish; }

  EncodedTensor& Chosen(size_t position);
  // Rows as they would be stored, and how they compare with plain rounding.
  absl::StatusOr<EncodedTensor> Pack(const TensorRows& rows,
                                     const quant::RowChoices& choices) const;
  absl::Status Compare(const TensorRows& rows, std::span<const float> weights,
                       const EncodedTensor& candidate, const GuardInputs* guard,
                       TensorCalibration& result) const;

  const converter::TensorPlan& plan_;
  const EncodedTensors& plain_;
  const CalibrateOptions& options_;
  base::ThreadPool& pool_;
  CalibrationReport& report_;
  std::shared_ptr<EncodedTensors> chosen_;
};

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_ROWS_FITTER_H_
