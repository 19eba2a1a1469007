// engine/lanes.h: the residual stream of n lanes (mHC). Specification: "Layer i", steps 1, 2, 6, 7.
// Internal to engine/.
#ifndef NEEDLE_ENGINE_LANES_H_
#define NEEDLE_ENGINE_LANES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "engine/matrix.h"
#include "engine/run.h"

namespace needle::engine {

class Lanes {
 public:
  explicit Lanes(const format::Geometry& geometry);

  // Each lane of position t becomes `x0` [d].
  void Start(size_t t, std::span<const float> x0);
  // The lanes of position t as they are now, [lanes, d].
  std::span<float> Streams(size_t t) { return std::span(x_).subspan(Row(t, 0), lanes_ * d_); }
  // Steps 1 and 2, and the mixing weights of 6 and 7: u [count, d].
  void Read(Run& run, size_t layer, std::span<float> u);
  // Where y of step 5 goes, [d].
  std::span<float> Output(size_t t) { return std::span(x_).subspan(Row(t, lanes_), d_); }
  // Steps 6 and 7.
  void Write(Run& run);
  // The mean of the lanes of position t, [d].
  void Mean(size_t t, std::span<float> mean) const;
  size_t MemoryBytes() const;

 private:
  // A position has lanes_ + 1 rows: the lanes, and y.
  size_t Row(size_t t, size_t row) const { return (t * (lanes_ + 1) + row) * d_; }
  void Weigh(const Run& run, size_t layer, size_t t);

  size_t d_;
  size_t lanes_;
  std::vector<float> x_, next_;          // [kChunk, lanes + 1, d]
  std::vector<float> z_;                 // [kChunk, lanes * d]
  std::vector<float> pre_, post_, res_;  // phi * z, [kChunk, rows of phi]
  std::vector<float> h_pre_;             // [kChunk, lanes]
  std::vector<float> mix_;               // [kChunk, lanes, lanes + 1]: R | hpost
  std::vector<double> sinkhorn_;         // [kChunk, lanes, lanes]
  std::vector<float> mean_weights_;      // [lanes]
  Activations input_;
};

// The specification's sinkhorn of the n x n `matrix`: `result` has rows `result_stride` apart,
// `work` n * n values. Computed with the exponentials themselves in f64, with + - * / alone: a
// row's maximum may be taken out first, because the first round does that too, and entries more
// than 700 below it count as 700 below, so that no sum is 0.
void Sinkhorn(std::span<const float> matrix, size_t n, std::span<double> work,
              std::span<float> result, size_t result_stride);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_LANES_H_
