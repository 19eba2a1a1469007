#include "engine/output_error.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/vector_ops.h"

namespace needle::engine {
namespace {

constexpr size_t kPositions = 16;  // a task

}  // namespace

OutputError CompareOutputs(std::span<const float> a, std::span<const float> b, size_t cols,
                           std::span<const float> x, std::span<const float> y,
                           std::span<const float> weights, base::ThreadPool& pool) {
  const size_t rows = a.size() / cols;
  std::vector<OutputError> results(weights.size());
  const auto body = [&](size_t begin, size_t end, size_t) {
    const size_t count = end - begin;
    std::vector<float> wanted(count * rows);
    std::vector<float> found(count * rows);
    Ops().multiply(a.data(), rows, cols, &x[begin * cols], count, wanted.data(), rows);
    Ops().multiply(b.data(), rows, cols, &y[begin * cols], count, found.data(), rows);
    for (size_t i = 0; i < count * rows; ++i) {
      const auto output = static_cast<double>(wanted[i]);
      const double error = output - static_cast<double>(found[i]);
      results[begin + i / rows].squared_error += error * error;
      results[begin + i / rows].squared_outputs += output * output;
    }
  };
  pool.ParallelFor(weights.size(), kPositions, std::ref(body));
  OutputError sum;
  for (size_t t = 0; t < weights.size(); ++t) {
    sum.squared_error += static_cast<double>(weights[t]) * results[t].squared_error;
    sum.squared_outputs += static_cast<double>(weights[t]) * results[t].squared_outputs;
  }
  return sum;
}

}  // namespace needle::engine
