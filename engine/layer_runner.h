// engine/layer_runner.h: one layer of a model at a time, with the streams between layers in the
// caller's hands: for those who change a layer's weights before the next one runs. Specification:
// "Layer i".
#ifndef NEEDLE_ENGINE_LAYER_RUNNER_H_
#define NEEDLE_ENGINE_LAYER_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/layer_part.h"
#include "engine/numerics.h"
#include "engine/observer.h"
#include "engine/weight_source.h"

namespace needle::engine {

struct Weights;  // engine/weights.h

// The weights of one layer, or of what is before the first and after the last. Immutable; may be
// used by any number of threads.
class LayerModel {
 public:
  // float and a8 numerics only (InvalidArgument otherwise). Other errors as of Model::Load.
  static absl::StatusOr<LayerModel> LoadLayer(std::shared_ptr<const WeightSource> source,
                                              Numerics numerics, size_t layer);
  // The embedding's rows and the final norm.
  static absl::StatusOr<LayerModel> LoadEnds(std::shared_ptr<const WeightSource> source,
                                             Numerics numerics);
  LayerModel(LayerModel&&) noexcept;
  LayerModel& operator=(LayerModel&&) noexcept;
  ~LayerModel();

  const WeightSource& source() const { return *source_; }
  Numerics numerics() const { return numerics_; }
  size_t layer() const { return layer_; }
  const Weights& weights() const { return *weights_; }

 private:
  LayerModel(std::shared_ptr<const WeightSource> source, Numerics numerics, size_t layer,
             std::unique_ptr<const Weights> weights);

  std::shared_ptr<const WeightSource> source_;
  Numerics numerics_;
  size_t layer_;
  std::unique_ptr<const Weights> weights_;
};

// Working memory of one thread; texts may be run in any order. The same numbers as Session's.
class LayerRunner {
 public:
  LayerRunner(const format::Geometry& geometry, Numerics numerics);
  LayerRunner(LayerRunner&&) noexcept;
  ~LayerRunner();

  // streams: [tokens.size(), lanes, d]. Every token must be below vocab, and there are at most
  // max_seq_len. `ends` and `layer` have this runner's geometry and numerics.
  absl::Status Embed(const LayerModel& ends, std::span<const uint32_t> tokens,
                     std::span<float> streams);
  // Runs a text from its first token up to the products of `last`; `streams` become the layer's
  // outputs for kWhole and stay otherwise. `observer` may be null. DataLoss: as of Session::Step.
  absl::Status RunLayer(const LayerModel& layer, std::span<const uint32_t> tokens, LayerPart last,
                        Observer* observer, std::span<float> streams);
  // inputs: [positions, d], what the tied head reads at each position of `streams`, after Q in a8.
  void HeadInputs(const LayerModel& ends, std::span<const float> streams, std::span<float> inputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_LAYER_RUNNER_H_
