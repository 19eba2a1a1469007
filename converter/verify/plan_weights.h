// converter/verify/plan_weights.h: a float checkpoint as the engine sees it, so that it runs
// without an archive. Specification: "Tree -> archive", "The model the reference engine runs"
// (float, a8).
#ifndef NEEDLE_CONVERTER_VERIFY_PLAN_WEIGHTS_H_
#define NEEDLE_CONVERTER_VERIFY_PLAN_WEIGHTS_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/tensor_plan.h"
#include "engine/weight_source.h"

namespace needle::verify {

// The tensors of a plan at full precision: merged with its adapters, at its depth; nothing is
// quantised, and nothing is rounded to f16. Shares the plan. Values are read anew at each call.
class PlanWeights : public engine::WeightSource {
 public:
  // `plan` is not null.
  explicit PlanWeights(std::shared_ptr<const converter::TensorPlan> plan)
      : plan_(std::move(plan)) {}

  const std::string& name() const override { return plan_->checkpoint().path(); }
  const format::Geometry& geometry() const override { return plan_->geometry(); }
  const format::Schema& schema() const override { return plan_->schema(); }
  // DataLoss: a value is not finite; names tensor and place.
  absl::StatusOr<std::vector<float>> Floats(format::TensorId id) const override;
  std::optional<format::CqView> Packed(format::TensorId) const override { return std::nullopt; }
  std::optional<std::span<const uint8_t>> Tokenizer() const override;

 private:
  std::shared_ptr<const converter::TensorPlan> plan_;
};

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_PLAN_WEIGHTS_H_
