// engine/trunk.h: the blocks of one layer put together, and the streams between layers. Internal to
// engine/. Specification: "Layer i".
#ifndef NEEDLE_ENGINE_TRUNK_H_
#define NEEDLE_ENGINE_TRUNK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "engine/attention.h"
#include "engine/engram.h"
#include "engine/hadamard_mlp.h"
#include "engine/lanes.h"
#include "engine/layer_part.h"
#include "engine/rope.h"
#include "engine/run.h"

namespace needle::engine {

// What a run of a model over one text keeps between chunks of positions, and the working memory of
// one chunk.
class Trunk {
 public:
  Trunk(const format::Geometry& geometry, Numerics numerics, size_t num_workers);

  // The run of positions [first, first + count) of `tokens`; refers to this object and the
  // arguments. Computes angles and hashes.
  Run Begin(const Weights& weights, Numerics numerics, base::ThreadPool& pool, Observer* observer,
            const format::Geometry& geometry, std::span<const uint32_t> tokens, size_t first,
            size_t count);
  // x0 = E[token] * sqrt(d) in each lane.
  absl::Status Embed(Run& run);
  // Layer `layer` up to the products of `last`, which are told to the observer.
  absl::Status RunLayer(Run& run, size_t layer, LayerPart last = LayerPart::kWhole);
  // Q(norm(mean of the lanes, final_norm)) of position t of the chunk; `h` has d values.
  void HeadInput(const Weights& weights, Numerics numerics, size_t t, std::span<float> h) const;

  Lanes& lanes() { return lanes_; }
  const Lanes& lanes() const { return lanes_; }
  // Back to position 0.
  void Reset();
  size_t MemoryBytes() const;

 private:
  // Gains applied to a root-mean-square of 1.
  void Normalize(const float* x, std::span<const float> gain, float* y) const;

  size_t d_;
  Rope rope_;
  Lanes lanes_;
  Attention attention_;
  HadamardMlp mlp_;
  Engram engram_;
  std::vector<float> u_, v_, normed_, update_;  // [kChunk, d]
  std::vector<float> cosines_, sines_;          // [kChunk, qk / 2]
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_TRUNK_H_
