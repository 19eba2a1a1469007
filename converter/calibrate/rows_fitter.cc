#include "converter/calibrate/rows_fitter.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/output_error.h"
#include "quant/norm_search.h"
#include "quant/pack.h"

namespace needle::calibrate {
namespace {

quant::RowChoices Unpack(const EncodedTensor& tensor, uint64_t first, uint64_t count) {
  quant::RowChoices choices(count, tensor.layout.padded_cols);
  for (uint64_t r = 0; r < count; ++r) {
    quant::UnpackRow(tensor.codebook.width(),
                     std::span(tensor.indices)
                         .subspan((first + r) * tensor.layout.row_bytes, tensor.layout.row_bytes),
                     std::span(choices.codes).subspan(r * choices.cols, choices.cols));
  }
  choices.norms = tensor.Norms(first, count);
  return choices;
}

}  // namespace

RowsFitter::RowsFitter(const converter::TensorPlan& plan, const EncodedTensors& plain,
                       const CalibrateOptions& options, base::ThreadPool& pool,
                       CalibrationReport& report)
    : plan_(plan),
      plain_(plain),
      options_(options),
      pool_(pool),
      report_(report),
      chosen_(std::make_shared<EncodedTensors>(plain.size())) {}

void RowsFitter::KeepPlain(size_t position) { Chosen(position); }

EncodedTensor& RowsFitter::Chosen(size_t position) {
  std::optional<EncodedTensor>& tensor = (*chosen_)[position];
  if (!tensor) tensor = plain_[position];
  return *tensor;
}

absl::Status RowsFitter::Search(const TensorRows& rows) {
  const uint64_t cols = plain_[rows.position]->layout.cols;
  std::vector<float> weights(rows.count * cols);
  RETURN_IF_ERROR(plan_.ReadRows(rows.position, rows.first, rows.count, weights));
  ASSIGN_OR_RETURN(
      const EncodedTensor candidate,
      EncodeTensor(weights, cols, plain_[rows.position]->codebook, quant::SearchRows, pool_));
  TensorCalibration result{.position = rows.position, .name = rows.name, .recipe = "search"};
  result.rows = rows.count;
  RETURN_IF_ERROR(Compare(rows, weights, candidate, nullptr, result));
  EncodedTensor& tensor = Chosen(rows.position);
  tensor.SetRows(rows.first, candidate.indices, candidate.Norms(0, rows.count));
  if (rows.count == tensor.layout.rows) tensor.recipe = "search";
  report_.tensors.push_back(std::move(result));
  return absl::OkStatus();
}

absl::StatusOr<EncodedTensor> RowsFitter::Pack(const TensorRows& rows,
                                               const quant::RowChoices& choices) const {
  const EncodedTensor& plain = *plain_[rows.position];
  ASSIGN_OR_RETURN(EncodedTensor packed,
                   EncodedTensor::Make(rows.count, plain.layout.cols, plain.codebook));
  for (uint64_t r = 0; r < rows.count; ++r) {
    quant::PackRow(
        plain.codebook.width(), std::span(choices.codes).subspan(r * choices.cols, choices.cols),
        std::span(packed.indices).subspan(r * packed.layout.row_bytes, packed.layout.row_bytes));
  }
  packed.SetRows(0, {}, choices.norms);
  return packed;
}

absl::Status RowsFitter::Compare(const TensorRows& rows, std::span<const float> weights,
                                 const EncodedTensor& candidate, const GuardInputs* guard,
                                 TensorCalibration& result) const {
  ASSIGN_OR_RETURN(const std::vector<float> plain,
                   DecodeRows(*plain_[rows.position], rows.first, rows.count));
  ASSIGN_OR_RETURN(const std::vector<float> chosen, DecodeRows(candidate, 0, rows.count));
  double squares = 0, plain_error = 0, chosen_error = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double weight = weights[i];
    const double plain_off = static_cast<double>(plain[i]) - weight;
    const double chosen_off = static_cast<double>(chosen[i]) - weight;
    squares += weight * weight;
    plain_error += plain_off * plain_off;
    chosen_error += chosen_off * chosen_off;
  }
  if (squares > 0) result.weights = {plain_error / squares, chosen_error / squares};
  if (guard == nullptr || guard->wanted.weights.empty()) return absl::OkStatus();
  const std::vector<float>& found = guard->found.x.empty() ? guard->wanted.x : guard->found.x;
  const auto error = [&](const std::vector<float>& candidate_weights) {
    return engine::CompareOutputs(weights, candidate_weights, guard->wanted.cols, guard->wanted.x,
                                  found, guard->wanted.weights, pool_);
  };
  const engine::OutputError before = error(plain);
  const engine::OutputError after = error(chosen);
  if (before.squared_outputs > 0) {
    result.guard = {before.squared_error / before.squared_outputs,
                    after.squared_error / before.squared_outputs};
  }
  return absl::OkStatus();
}

absl::Status RowsFitter::Fit(const TensorRows& rows, const InputMetric* input,
                             const GuardInputs* guard) {
  EncodedTensor& tensor = Chosen(rows.position);
  TensorCalibration result{.position = rows.position, .name = rows.name, .recipe = "rtn"};
  result.rows = rows.count;
  if (input == nullptr) {
    result.plain_rows = rows.count;
    result.fallback = "its inputs are always zero, or too small or large to measure";
    report_.AddWarning(absl::StrCat("plain-kept: ", rows.name, ": ", result.fallback));
    report_.tensors.push_back(std::move(result));
    return absl::OkStatus();
  }
  std::vector<float> weights(rows.count * tensor.layout.cols);
  RETURN_IF_ERROR(plan_.ReadRows(rows.position, rows.first, rows.count, weights));
  const RowsFit fit =
      FitRows(RotatedRows(weights, tensor.layout.cols, pool_), *input, tensor.codebook, polishes(),
              Unpack(*plain_[rows.position], rows.first, rows.count), pool_);
  ASSIGN_OR_RETURN(const EncodedTensor candidate, Pack(rows, fit.choices));
  RETURN_IF_ERROR(Compare(rows, weights, candidate, guard, result));
  result.damping = input->damping;
  result.damping_raised = input->damping_raised;
  result.dead_inputs = input->dead_inputs;
  result.plain_rows = fit.plain_rows;
  if (fit.target_objective > 0) {
    result.calibration = {fit.plain_objective / fit.target_objective,
                          fit.objective / fit.target_objective};
  }
  // Also when a value is not a number.
  const bool better = !result.guard || result.guard->chosen <= result.guard->plain;
  if (better || !options_.guard) {
    result.recipe = RecipeName(options_.recipe);
    tensor.recipe = result.recipe;
    tensor.SetRows(rows.first, candidate.indices, candidate.Norms(0, rows.count));
  } else {
    result.fallback = absl::StrFormat("error on the guard part %.4g, plain rounding %.4g",
                                      result.guard->chosen, result.guard->plain);
    result.plain_rows = rows.count;
    report_.AddWarning(absl::StrCat("plain-kept: ", rows.name, ": ", result.fallback));
  }
  report_.tensors.push_back(std::move(result));
  return absl::OkStatus();
}

}  // namespace needle::calibrate
