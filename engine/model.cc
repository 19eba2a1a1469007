#include "engine/model.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/weights.h"

namespace needle::engine {

namespace {

absl::Status CheckRunnable(const WeightSource& source) {
  const absl::Status geometry = format::CheckGeometry(source.geometry());
  if (!geometry.ok()) return base::WithContext(geometry, source.name());
  const uint32_t bits = source.geometry().kv_bits;
  if (bits == 8 || (bits >= 2 && bits <= 4)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: kv_bits is %d, want 2, 3, 4 or 8", source.name(), bits));
}

}  // namespace

Model::Model(std::shared_ptr<const WeightSource> source, const ModelOptions& options,
             std::unique_ptr<const Weights> weights)
    : source_(std::move(source)), options_(options), weights_(std::move(weights)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

absl::StatusOr<Model> Model::Load(std::shared_ptr<const WeightSource> source,
                                  const ModelOptions& options) {
  if (source == nullptr) return absl::InvalidArgumentError("no source of weights");
  RETURN_IF_ERROR(CheckRunnable(*source));
  ASSIGN_OR_RETURN(Weights weights, LoadWeights(*source, options.numerics));
  return Model(std::move(source), options, std::make_unique<const Weights>(std::move(weights)));
}

}  // namespace needle::engine
