// engine/run.h: what every block of the forward pass sees of one chunk of positions. Internal to
// engine/.
#ifndef NEEDLE_ENGINE_RUN_H_
#define NEEDLE_ENGINE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/matrix.h"
#include "engine/numerics.h"
#include "engine/observer.h"
#include "engine/weights.h"
#include "format/geometry.h"

namespace needle::engine {

// The most positions that a forward pass takes at once: enough to use each weight many times while
// it is in the cache, few enough to keep the activations there too.
inline constexpr size_t kChunk = 16;

struct Run {
  const format::Geometry& geometry;
  const Weights& weights;
  Numerics numerics;
  base::ThreadPool& pool;
  Observer* observer;  // may be null

  size_t first = 0;                       // position of the chunk's first token
  size_t count = 0;                       // positions of the chunk, at most kChunk
  std::span<const uint32_t> tokens;       // all of the session, first + count
  std::span<const float> cosines, sines;  // [count, qk / 2]

  // Whether the specification's Q applies where no product follows it / before products.
  bool quantizes() const { return numerics != Numerics::kFloat; }
  bool quantizes_inputs() const { return numerics == Numerics::kA8; }

  // body(position in the chunk, worker) for each position, on the pool's threads.
  template <typename Body>
  void ForEachPosition(const Body& body) {
    const auto range = [&body](size_t begin, size_t end, size_t worker) {
      for (size_t t = begin; t < end; ++t) body(t, worker);
    };
    pool.ParallelFor(count, 1, std::ref(range));
  }
};

// Rows of a chunk that follow the last rows of what came before, for causal convolutions.
class History {
 public:
  // Keeps the last `depth` rows of `width` values, zeros at first.
  History(size_t depth, size_t width) : depth_(depth), width_(width), rows_(depth * width, 0.0F) {}

  size_t width() const { return width_; }
  // Puts the kept rows in front of a buffer of (depth + count) rows; the chunk's rows follow them.
  void Restore(std::span<float> buffer) const;
  // Keeps the last rows of that buffer.
  void Save(std::span<const float> buffer, size_t count);
  void Clear();
  size_t depth() const { return depth_; }

 private:
  size_t depth_;
  size_t width_;
  std::vector<float> rows_;
};

// y = sum over j < taps.size() / width of taps[j] * (row t - j * dilation), where `row` points at
// row t of a buffer in which the rows before it are kept.
void CausalConv(std::span<const float> taps, size_t width, size_t dilation, const float* row,
                float* y);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_RUN_H_
