#include "quant/dense.h"

#include <cmath>

#include "gtest/gtest.h"
#include "quant/dense_kernel.h"
#include "tests/calibrate/random_values.h"

namespace needle::quant {
namespace {

using tests::GaussianMatrix;
using tests::RandomMoments;

std::vector<double> Values(const DenseMatrix& matrix) {
  return {matrix.values().begin(), matrix.values().end()};
}

TEST(DenseKernelTest, TwinsGiveTheSameBits) {
  const DenseKernel& portable = PortableDense();
  const DenseKernel& simd = SimdDense();
  for (const size_t n : {1U, 7U, 8U, 31U, 64U, 75U}) {
    const DenseMatrix a = GaussianMatrix(13, 29, 1);
    const DenseMatrix b = GaussianMatrix(29, n, 2);
    DenseMatrix c = GaussianMatrix(13, n, 3);
    DenseMatrix d = c;
    portable.add_product(a.row(0), 29, b.row(0), n, 13, 29, n, c.row(0), n);
    simd.add_product(a.row(0), 29, b.row(0), n, 13, 29, n, d.row(0), n);
    EXPECT_EQ(Values(c), Values(d)) << n;
    portable.add_scaled(b.row(0), 0.3, c.row(0), n);
    simd.add_scaled(b.row(0), 0.3, d.row(0), n);
    EXPECT_EQ(Values(c), Values(d)) << n;
    DenseMatrix w = GaussianMatrix(n, kCandidates, 4);
    DenseMatrix x = w;
    portable.subtract_outer(b.row(0), n, a.row(0), w.row(0));
    simd.subtract_outer(b.row(0), n, a.row(0), x.row(0));
    EXPECT_EQ(Values(w), Values(x)) << n;
  }
}

TEST(DenseTest, ProductAddsTermsInOrder) {
  base::ThreadPool pool(3);
  const DenseMatrix a = GaussianMatrix(37, 150, 1);
  const DenseMatrix b = GaussianMatrix(150, 41, 2);
  const DenseMatrix c = Product(a, b, pool);
  for (size_t i = 0; i < c.rows(); ++i) {
    for (size_t j = 0; j < c.cols(); ++j) {
      double sum = 0;
      for (size_t k = 0; k < a.cols(); ++k) sum += a.at(i, k) * b.at(k, j);
      ASSERT_EQ(c.at(i, j), sum) << i << ", " << j;
    }
  }
}

// Rounding: at most n * 2^-53 * cond relative to the identity; the moments here have a condition
// number of about 1e7, so 300 * 1.1e-16 * 1e7 = 3e-7.
TEST(DenseTest, InverseFactorInverts) {
  base::ThreadPool pool(2);
  for (const size_t n : {5U, 64U, 130U, 300U}) {
    const DenseMatrix h = RandomMoments(n, 7);
    DenseMatrix u;
    ASSERT_TRUE(InverseFactor(h, pool, u));
    const DenseMatrix identity = Product(Product(Transposed(u), u, pool), h, pool);
    for (size_t r = 0; r < n; ++r) {
      for (size_t c = 0; c < n; ++c) {
        EXPECT_NEAR(identity.at(r, c), r == c ? 1 : 0, 1e-6) << n;
        if (c < r) {
          EXPECT_EQ(u.at(r, c), 0);
        }
      }
    }
  }
}

TEST(DenseTest, InverseFactorRefusesWhatIsNotPositive) {
  base::ThreadPool pool(1);
  DenseMatrix u;
  DenseMatrix h = RandomMoments(130, 7);
  h.at(100, 100) = -1;
  EXPECT_FALSE(InverseFactor(h, pool, u));
  h.at(100, 100) = std::nan("");
  EXPECT_FALSE(InverseFactor(h, pool, u));
  EXPECT_FALSE(InverseFactor(DenseMatrix(70, 70), pool, u));
}

TEST(DenseTest, ThreadsDoNotShow) {
  const DenseMatrix h = RandomMoments(200, 9);
  base::ThreadPool one(1);
  DenseMatrix expected;
  ASSERT_TRUE(InverseFactor(h, one, expected));
  for (const size_t threads : {2U, 7U}) {
    base::ThreadPool pool(threads);
    DenseMatrix found;
    ASSERT_TRUE(InverseFactor(h, pool, found));
    EXPECT_EQ(Values(found), Values(expected));
  }
}

// R is symmetric and its own inverse: both sides twice give the matrix back. Each of the 4 * 8
// roundings of a value adds 2^-53 of the largest magnitude, which grows by at most 128.
TEST(DenseTest, RotationIsItsOwnInverse) {
  base::ThreadPool pool(1);
  const DenseMatrix h = RandomMoments(256, 3);
  DenseMatrix twice = h;
  RotateBothSides(twice, pool);
  EXPECT_NEAR(Trace(twice), Trace(h), 1e-9 * Trace(h));
  RotateBothSides(twice, pool);
  double largest = 0;
  for (const double value : h.values()) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < h.values().size(); ++i) {
    ASSERT_NEAR(twice.values()[i], h.values()[i], 32 * 128 * 1.2e-16 * largest);
  }
}

}  // namespace
}  // namespace needle::quant
