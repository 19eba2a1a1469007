#include "converter/verify/plan_weights.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace needle::verify {

absl::StatusOr<std::vector<float>> PlanWeights::Floats(format::TensorId id) const {
  const std::optional<size_t> position = schema().Find(id);
  if (!position || id.role == format::TensorRole::kTokenizer) {
    return absl::NotFoundError(absl::StrFormat("%s: no tensor %s, number %d", name(),
                                               std::string(format::RoleName(id.role)), id.index));
  }
  ASSIGN_OR_RETURN(std::vector<float> values, converter::ReadTensor(*plan_, schema(), *position));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return absl::DataLossError(absl::StrFormat("%s: %s: value %d is %g, want a finite number",
                                               name(), schema().tensors()[*position].name, i,
                                               values[i]));
  }
  return values;
}

std::optional<std::span<const uint8_t>> PlanWeights::Tokenizer() const {
  if (plan_->tokenizer().empty()) return std::nullopt;
  return plan_->tokenizer();
}

}  // namespace needle::verify
