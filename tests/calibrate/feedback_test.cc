#include "quant/feedback.h"

#include <array>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "quant/code_table.h"
#include "tests/calibrate/random_values.h"

namespace needle::quant {
namespace {

using tests::GaussianMatrix;
using tests::RandomMoments;

constexpr size_t kCols = 256;

Metric MakeMetric(DenseMatrix moments) {
  base::ThreadPool pool(1);
  Metric metric;
  EXPECT_TRUE(InverseFactor(moments, pool, metric.factor));
  metric.moments = std::move(moments);
  return metric;
}

double Objective(const DenseMatrix& targets, const DenseMatrix& moments, const DenseMatrix& values,
                 size_t row) {
  double sum = 0;
  for (size_t i = 0; i < targets.cols(); ++i) {
    for (size_t j = 0; j < targets.cols(); ++j) {
      sum += (values.at(row, i) - targets.at(row, i)) * moments.at(i, j) *
             (values.at(row, j) - targets.at(row, j));
    }
  }
  return sum;
}

// Plain rounding, in f64.
RowChoices RoundPlainly(const DenseMatrix& targets, const Codebook& codebook) {
  const CodeTable table(codebook);
  RowChoices choices(targets.rows(), targets.cols());
  for (size_t i = 0; i < targets.values().size(); i += 128) {
    const auto group = targets.values().subspan(i, 128);
    double square = 0;
    for (const double value : group) square += value * value;
    choices.norms[i / 128] = NormBits(std::sqrt(square));
    for (size_t j = 0; j < 128; ++j) {
      choices.codes[i + j] = table.Nearest(group[j] / std::sqrt(square));
    }
  }
  return choices;
}

class FeedbackTest : public testing::TestWithParam<format::Width> {
 protected:
  FeedbackTest() : codebook_(Codebook::Standard(GetParam())) {}
  Codebook codebook_;
  base::ThreadPool pool_{2};
};

// Without correlations there is nothing to feed back: each group is rounded to nearest under the
// candidate norm that gives the least weighted error.
TEST_P(FeedbackTest, DiagonalMomentsMeanRoundingToNearest) {
  DenseMatrix diagonal(kCols, kCols);
  for (size_t i = 0; i < kCols; ++i) diagonal.at(i, i) = 0.5 + static_cast<double>(i % 5);
  const DenseMatrix targets = GaussianMatrix(9, kCols, 5);
  const CodeTable table(codebook_);
  const RowChoices found = FeedbackRows(targets, MakeMetric(diagonal), codebook_, pool_);
  for (size_t g = 0; g < found.norms.size(); ++g) {
    const auto group = targets.values().subspan(g * 128, 128);
    double square = 0;
    for (const double value : group) square += value * value;
    double least = HUGE_VAL;
    uint16_t best = 0;
    for (const double factor : {0.70, 0.78, 0.85, 0.90, 0.95, 1.00, 1.06, 1.12}) {
      const uint16_t bits = NormBits(std::sqrt(square) * factor);
      double error = 0;
      for (size_t j = 0; j < 128; ++j) {
        const double norm = NormValue(bits);
        const double off = group[j] - table[table.Nearest(group[j] / norm)] * norm;
        error += off * off * diagonal.at(g % 2 * 128 + j, g % 2 * 128 + j);
      }
      if (error < least) best = bits;
      least = std::min(least, error);
    }
    ASSERT_EQ(found.norms[g], best) << g;
    for (size_t j = 0; j < 128; ++j) {
      ASSERT_EQ(found.codes[g * 128 + j], table.Nearest(group[j] / NormValue(best))) << g;
    }
  }
}

TEST_P(FeedbackTest, ObjectivesAreWhatTheyClaim) {
  const DenseMatrix moments = RandomMoments(kCols, 11);
  const DenseMatrix targets = GaussianMatrix(3, kCols, 6);
  const RowChoices plain = RoundPlainly(targets, codebook_);
  const std::vector<double> found = RowObjectives(targets, moments, codebook_, plain, pool_);
  const DenseMatrix values = RowValues(plain, codebook_);
  for (size_t r = 0; r < 3; ++r) {
    const double expected = Objective(targets, moments, values, r);
    EXPECT_NEAR(found[r], expected, 1e-9 * expected);  // 65536 terms of either sign in f64
  }
}

TEST_P(FeedbackTest, EachStepLowersTheObjective) {
  const Metric metric = MakeMetric(RandomMoments(kCols, 12));
  const DenseMatrix targets = GaussianMatrix(11, kCols, 7);
  const auto objectives = [&](const RowChoices& choices) {
    return RowObjectives(targets, metric.moments, codebook_, choices, pool_);
  };
  const std::vector<double> plain = objectives(RoundPlainly(targets, codebook_));
  RowChoices choices = FeedbackRows(targets, metric, codebook_, pool_);
  std::vector<double> before = objectives(choices);
  // Feedback promises nothing for a single row.
  EXPECT_LT(std::accumulate(before.begin(), before.end(), 0.0),
            std::accumulate(plain.begin(), plain.end(), 0.0));
  for (int round = 0; round < 4; ++round) {
    PolishRows(targets, metric, codebook_, 1, pool_, choices);
    const std::vector<double> after = objectives(choices);
    for (size_t r = 0; r < after.size(); ++r) {
      EXPECT_LE(after[r], before[r] * (1 + 1e-9)) << r;  // the measure itself rounds
    }
    before = after;
  }
}

// After enough rounds no change of a single index helps: every one is tried.
TEST_P(FeedbackTest, PolishEndsWhereNoIndexCanImprove) {
  const Metric metric = MakeMetric(RandomMoments(kCols, 13));
  const DenseMatrix targets = GaussianMatrix(2, kCols, 8);
  RowChoices choices = FeedbackRows(targets, metric, codebook_, pool_);
  PolishRows(targets, metric, codebook_, 200, pool_, choices);
  // The last refit may have moved the norms again; one more sweep shows whether it stood still.
  RowChoices again = choices;
  PolishRows(targets, metric, codebook_, 1, pool_, again);
  EXPECT_EQ(again.codes, choices.codes);
  const std::vector<double> best =
      RowObjectives(targets, metric.moments, codebook_, choices, pool_);
  for (size_t i = 0; i < choices.codes.size(); ++i) {
    for (uint8_t code = 0; code < format::NumLevels(GetParam()); ++code) {
      RowChoices changed = choices;
      changed.codes[i] = code;
      const DenseMatrix values = RowValues(changed, codebook_);
      if (i % 17 != 0) continue;  // each trial costs a whole product
      ASSERT_GE(Objective(targets, metric.moments, values, i / kCols),
                best[i / kCols] * (1 - 1e-9));
    }
  }
}

TEST_P(FeedbackTest, ThreadsDoNotShow) {
  const Metric metric = MakeMetric(RandomMoments(kCols, 14));
  const DenseMatrix targets = GaussianMatrix(21, kCols, 9);
  const auto run = [&](size_t threads) {
    base::ThreadPool pool(threads);
    RowChoices choices = FeedbackRows(targets, metric, codebook_, pool);
    PolishRows(targets, metric, codebook_, 3, pool, choices);
    return choices;
  };
  const RowChoices one = run(1);
  for (const size_t threads : {2U, 7U}) {
    EXPECT_EQ(run(threads).codes, one.codes);
    EXPECT_EQ(run(threads).norms, one.norms);
  }
}

TEST_P(FeedbackTest, ZeroTargetsGiveZeroNorms) {
  const Metric metric = MakeMetric(RandomMoments(kCols, 15));
  const DenseMatrix targets(2, kCols);
  RowChoices choices = FeedbackRows(targets, metric, codebook_, pool_);
  PolishRows(targets, metric, codebook_, 3, pool_, choices);
  EXPECT_EQ(choices.norms, std::vector<uint16_t>(4, 0));
}

INSTANTIATE_TEST_SUITE_P(AllWidths, FeedbackTest, testing::ValuesIn(format::kAllWidths));

}  // namespace
}  // namespace needle::quant
