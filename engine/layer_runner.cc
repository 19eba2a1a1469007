#include "engine/layer_runner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "engine/trunk.h"
#include "engine/weights.h"

namespace needle::engine {
namespace {

absl::Status CheckNumerics(Numerics numerics) {
  if (numerics != Numerics::kKernel) return absl::OkStatus();
  return absl::InvalidArgumentError("layers run in float and a8 numerics only, not in kernel");
}

}  // namespace

LayerModel::LayerModel(std::shared_ptr<const WeightSource> source, Numerics numerics, size_t layer,
                       std::unique_ptr<const Weights> weights)
    : source_(std::move(source)),
      numerics_(numerics),
      layer_(layer),
      weights_(std::move(weights)) {}
LayerModel::LayerModel(LayerModel&&) noexcept = default;
LayerModel& LayerModel::operator=(LayerModel&&) noexcept = default;
LayerModel::~LayerModel() = default;

absl::StatusOr<LayerModel> LayerModel::LoadLayer(std::shared_ptr<const WeightSource> source,
                                                 Numerics numerics, size_t layer) {
  RETURN_IF_ERROR(CheckNumerics(numerics));
  ASSIGN_OR_RETURN(Weights weights, LoadLayerWeights(*source, numerics, layer));
  return LayerModel(std::move(source), numerics, layer,
                    std::make_unique<const Weights>(std::move(weights)));
}

absl::StatusOr<LayerModel> LayerModel::LoadEnds(std::shared_ptr<const WeightSource> source,
                                                Numerics numerics) {
  RETURN_IF_ERROR(CheckNumerics(numerics));
  ASSIGN_OR_RETURN(Weights weights, LoadEndWeights(*source));
  return LayerModel(std::move(source), numerics, 0,
                    std::make_unique<const Weights>(std::move(weights)));
}

struct LayerRunner::State {
  State(const format::Geometry& geometry_in, Numerics numerics_in)
      : geometry(geometry_in),
        numerics(numerics_in),
        width(size_t{geometry.mhc_lanes} * geometry.d_model),
        pool(1),
        trunk(geometry, numerics, 1) {}

  Run Begin(const LayerModel& model, Observer* observer, std::span<const uint32_t> tokens,
            size_t first) {
    const size_t count = std::min(kChunk, tokens.size() - first);
    return trunk.Begin(model.weights(), numerics, pool, observer, geometry, tokens, first, count);
  }
  // Between position t of the chunk at `first` and its place in `streams`.
  void Load(std::span<const float> streams, size_t first, size_t t) {
    const auto from = streams.subspan((first + t) * width, width);
    std::copy(from.begin(), from.end(), trunk.lanes().Streams(t).begin());
  }
  void Store(std::span<float> streams, size_t first, size_t t) {
    const auto from = trunk.lanes().Streams(t);
    std::copy(from.begin(), from.end(), streams.subspan((first + t) * width, width).begin());
  }

  format::Geometry geometry;
  Numerics numerics;
  size_t width;  // values of a position's streams
  base::ThreadPool pool;
  Trunk trunk;
};

LayerRunner::LayerRunner(const format::Geometry& geometry, Numerics numerics)
    : state_(std::make_unique<State>(geometry, numerics)) {}
LayerRunner::LayerRunner(LayerRunner&&) noexcept = default;
LayerRunner::~LayerRunner() = default;

absl::Status LayerRunner::Embed(const LayerModel& ends, std::span<const uint32_t> tokens,
                                std::span<float> streams) {
  for (size_t first = 0; first < tokens.size(); first += kChunk) {
    Run run = state_->Begin(ends, nullptr, tokens, first);
    RETURN_IF_ERROR(state_->trunk.Embed(run));
    for (size_t t = 0; t < run.count; ++t) state_->Store(streams, first, t);
  }
  return absl::OkStatus();
}

absl::Status LayerRunner::RunLayer(const LayerModel& layer, std::span<const uint32_t> tokens,
                                   LayerPart last, Observer* observer, std::span<float> streams) {
  state_->trunk.Reset();
  for (size_t first = 0; first < tokens.size(); first += kChunk) {
    Run run = state_->Begin(layer, observer, tokens, first);
    for (size_t t = 0; t < run.count; ++t) state_->Load(streams, first, t);
    RETURN_IF_ERROR(state_->trunk.RunLayer(run, layer.layer(), last));
    if (last != LayerPart::kWhole) continue;
    for (size_t t = 0; t < run.count; ++t) state_->Store(streams, first, t);
  }
  return absl::OkStatus();
}

void LayerRunner::HeadInputs(const LayerModel& ends, std::span<const float> streams,
                             std::span<float> inputs) {
  const size_t d = state_->geometry.d_model;
  const size_t positions = inputs.size() / d;
  for (size_t position = 0; position < positions; ++position) {
    state_->Load(streams, position, 0);
    state_->trunk.HeadInput(ends.weights(), state_->numerics, 0, inputs.subspan(position * d, d));
  }
}

}  // namespace needle::engine
