#include "engine/moments.h"

#include <cmath>
#include <vector>

#include "engine/output_error.h"
#include "gtest/gtest.h"
#include "tests/calibrate/random_values.h"

namespace needle::engine {
namespace {

constexpr size_t kN = 70;           // more than a tile, and not a whole number of them
constexpr size_t kPositions = 300;  // likewise of blocks

struct Data {
  std::vector<float> a = tests::GaussianFloats(kPositions * kN, 1);
  std::vector<float> b = tests::GaussianFloats(kPositions * kN, 2);
  std::vector<float> weights;
  Data() {
    for (size_t t = 0; t < kPositions; ++t) weights.push_back(t % 3 == 0 ? 1.0F : 0.1F);
  }
};

quant::DenseMatrix Sum(const Data& data, bool symmetric, size_t threads) {
  base::ThreadPool pool(threads);
  MomentSum sum(kN, symmetric);
  sum.Add(data.a, symmetric ? data.a : data.b, data.weights, pool);
  return std::move(sum).Take();
}

// f32: each product and each of at most 128 additions of a block rounds by 2^-24 of a magnitude of
// at most the sum of absolute products.
TEST(MomentSumTest, IsTheWeightedSumOfProducts) {
  const Data data;
  for (const bool symmetric : {false, true}) {
    const quant::DenseMatrix found = Sum(data, symmetric, 2);
    const std::vector<float>& b = symmetric ? data.a : data.b;
    for (size_t i = 0; i < kN; ++i) {
      for (size_t j = 0; j < kN; ++j) {
        double expected = 0, magnitude = 0;
        for (size_t t = 0; t < kPositions; ++t) {
          const double product = static_cast<double>(data.weights[t]) *
                                 static_cast<double>(data.a[t * kN + i]) *
                                 static_cast<double>(b[t * kN + j]);
          expected += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(found.at(i, j), expected, 130 * 6e-8 * magnitude);
      }
    }
  }
}

TEST(MomentSumTest, ThreadsDoNotShow) {
  const Data data;
  for (const bool symmetric : {false, true}) {
    const quant::DenseMatrix one = Sum(data, symmetric, 1);
    for (const size_t threads : {2U, 7U}) {
      const quant::DenseMatrix more = Sum(data, symmetric, threads);
      EXPECT_TRUE(std::ranges::equal(one.values(), more.values()));
    }
  }
}

TEST(CompareOutputsTest, MeasuresErrorOverOutputs) {
  // Rows (1, 2) and (0, 3) at x = (1, 1) and (2, 0): outputs (3, 3) and (2, 0).
  const std::vector<float> a = {1, 2, 0, 3};
  const std::vector<float> b = {1, 2, 0, 2};
  const std::vector<float> x = {1, 1, 2, 0};
  const std::vector<float> y = {1, 1, 3, 0};
  const std::vector<float> weights = {1.0F, 0.5F};
  base::ThreadPool pool(2);
  const OutputError error = CompareOutputs(a, b, 2, x, y, weights, pool);
  // Position 0: (3, 3) against (3, 2); position 1: (2, 0) against (3, 0).
  EXPECT_EQ(error.squared_error, 1 + 0.5 * 1);
  EXPECT_EQ(error.squared_outputs, 18 + 0.5 * 4);
}

}  // namespace
}  // namespace needle::engine
