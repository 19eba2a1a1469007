// engine/output_error.h: how far a matrix's outputs move when its weights and inputs do.
#ifndef NEEDLE_ENGINE_OUTPUT_ERROR_H_
#define NEEDLE_ENGINE_OUTPUT_ERROR_H_

#include <cstddef>
#include <span>

#include "base/thread_pool.h"

namespace needle::engine {

struct OutputError {
  double squared_error = 0;    // sum of weight * |a x - b y|^2
  double squared_outputs = 0;  // sum of weight * |a x|^2
};

// a, b: matrices [rows, cols]; x, y: inputs [weights.size(), cols], a position each. Products in
// f32, sums in f64 in the order of positions and rows: the same bits on every machine and for every
// number of threads.
OutputError CompareOutputs(std::span<const float> a, std::span<const float> b, size_t cols,
                           std::span<const float> x, std::span<const float> y,
                           std::span<const float> weights, base::ThreadPool& pool);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_OUTPUT_ERROR_H_
