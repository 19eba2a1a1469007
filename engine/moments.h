// engine/moments.h: second moments of activations. The same bits on every machine and for every
// number of threads.
#ifndef NEEDLE_ENGINE_MOMENTS_H_
#define NEEDLE_ENGINE_MOMENTS_H_

#include <cstddef>
#include <span>

#include "base/thread_pool.h"
#include "quant/dense.h"

namespace needle::engine {

// The sum over positions of weight * a b^T: f32 products summed in f32 over blocks of 128 positions
// (each a chain in ascending order), the blocks in f64. Blocks start anew with each Add, so the
// result depends on how the positions are split over calls.
class MomentSum {
 public:
  // a and b have n values a position. `symmetric`: a is b, and half of the work is saved.
  MomentSum(size_t n, bool symmetric) : symmetric_(symmetric), sum_(n, n) {}

  // a, b: row-major [weights.size(), n].
  void Add(std::span<const float> a, std::span<const float> b, std::span<const float> weights,
           base::ThreadPool& pool);

  // [n, n]: row i, column j is the sum of a_i b_j.
  quant::DenseMatrix Take() &&;

 private:
  bool symmetric_;
  quant::DenseMatrix sum_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_MOMENTS_H_
