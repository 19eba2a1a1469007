// converter/calibrate/activations.h: the streams of all examples between layers, and the inputs of
// a layer's matrices.
#ifndef NEEDLE_CONVERTER_CALIBRATE_ACTIVATIONS_H_
#define NEEDLE_CONVERTER_CALIBRATE_ACTIVATIONS_H_

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "converter/calibrate/calibration_set.h"
#include "engine/layer_runner.h"

namespace needle::calibrate {

// The parts of a layer with matrices: all of engine::LayerPart but kWhole, by its values.
inline constexpr size_t kNumParts = 4;

// A text's residual streams in one model, between two layers.
struct Stream {
  const Example* example = nullptr;
  std::vector<float> weights;  // of positions
  std::vector<float> values;   // [positions, lanes, d]
  // Inputs of each part of the layer that ran last, [positions, columns], while they are kept.
  std::array<std::vector<float>, kNumParts> kept;
};

// The examples of one part (fit or guard) as one model has run them so far.
using Streams = std::vector<Stream>;

// Inputs of some positions to one part of a layer: row-major [weights.size(), cols].
struct Inputs {
  size_t cols = 0;
  std::vector<float> weights;
  std::vector<float> x;
};

// Runs layers over many examples on the pool's threads; owns a runner for each.
class ActivationRunner {
 public:
  ActivationRunner(const format::Geometry& geometry, engine::Numerics numerics,
                   base::ThreadPool& pool);

  // DataLoss: with the example's number, counted from 1 within its part.
  absl::Status Embed(const engine::LayerModel& ends, std::span<const Example> examples,
                     Streams& streams);
  // Every example through `layer`.
  absl::Status Advance(const engine::LayerModel& layer, Streams& streams);
  // The same, and keeps what each part's products read.
  absl::Status AdvanceAndKeep(const engine::LayerModel& layer, Streams& streams);
  // Without moving the streams: what the products of `part` read at every position of `some`, one
  // example after the other.
  absl::Status Collect(const engine::LayerModel& layer, engine::LayerPart part,
                       std::span<Stream> some, Inputs& inputs);
  // What the tied head reads.
  void CollectHead(const engine::LayerModel& ends, std::span<Stream> some, Inputs& inputs);

 private:
  absl::Status ForEach(
      std::span<Stream> streams,
      const std::function<absl::Status(engine::LayerRunner&, Stream&, size_t)>& run);

  size_t d_;
  base::ThreadPool& pool_;
  std::vector<engine::LayerRunner> runners_;
};

// Columns of the inputs of `part`.
size_t PartColumns(const format::Geometry& geometry, engine::LayerPart part);

// What AdvanceAndKeep kept of `part`, one example after the other.
void TakeKept(engine::LayerPart part, std::span<const Stream> some, Inputs& inputs);

// Ranges of streams whose positions are taken together: at least 1024 positions each but for the
// last. Depends on the examples alone.
std::vector<std::span<Stream>> Batches(Streams& streams);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_ACTIVATIONS_H_
