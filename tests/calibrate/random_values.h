// tests/calibrate/random_values.h: the same random numbers in every run.
#ifndef NEEDLE_TESTS_CALIBRATE_RANDOM_VALUES_H_
#define NEEDLE_TESTS_CALIBRATE_RANDOM_VALUES_H_

#include <cstddef>
#include <cstdint>

#include "base/legacy_random.h"
#include "quant/dense.h"
#include "tests/support/float_values.h"

namespace needle::tests {

inline quant::DenseMatrix GaussianMatrix(size_t rows, size_t cols, uint32_t seed) {
  base::LegacyRandom random(seed);
  quant::DenseMatrix matrix(rows, cols);
  for (double& value : matrix.values()) value = random.NextGaussian();
  return matrix;
}

// Moments of correlated inputs of very different sizes, damped: symmetric, positive definite.
inline quant::DenseMatrix RandomMoments(size_t n, uint32_t seed) {
  base::LegacyRandom random(seed);
  base::ThreadPool pool(1);
  quant::DenseMatrix inputs = GaussianMatrix(2 * n, n, seed + 1);
  for (size_t c = 0; c < n; ++c) {
    const double size = 0.1 + random.NextDouble() * (c % 37 == 0 ? 20 : 1);
    for (size_t r = 0; r < inputs.rows(); ++r) {
      inputs.at(r, c) = size * inputs.at(r, c) + 0.7 * inputs.at(r, c / 2);
    }
  }
  quant::DenseMatrix moments = Product(Transposed(inputs), inputs, pool);
  for (size_t i = 0; i < n; ++i) moments.at(i, i) *= 1.01;
  return moments;
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_CALIBRATE_RANDOM_VALUES_H_
