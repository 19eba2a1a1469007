#include "converter/verify/divergence.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace needle::verify {
namespace {

// Logits of a distribution, shifted: softmax does not see the shift.
std::vector<float> LogitsOf(const std::vector<double>& probabilities, double shift) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p) + shift));
  return logits;
}

TEST(DivergenceTest, KlIsThatOfTheTwoDistributions) {
  const std::vector<double> p = {0.5, 0.25, 0.25};
  const std::vector<double> q = {0.25, 0.5, 0.25};
  const PositionScore score = ScorePosition(LogitsOf(p, 3), LogitsOf(q, -70));
  EXPECT_TRUE(score.finite);
  EXPECT_FALSE(score.same_top);
  // 0.5 ln 2 + 0.25 ln 0.5; logits are f32: relative rounding of 70 is 4e-6.
  EXPECT_NEAR(score.kl, 0.25 * std::log(2.0), 1e-5);
}

TEST(DivergenceTest, EqualLogitsDivergeByNothing) {
  const std::vector<float> logits = {1, -2, 30, 4};
  const PositionScore score = ScorePosition(logits, logits);
  EXPECT_EQ(score.kl, 0);
  EXPECT_TRUE(score.same_top);
}

TEST(DivergenceTest, AHugeLogitDoesNotOverflow) {
  const std::vector<float> logits = {3e38F, 0};
  EXPECT_EQ(ScorePosition(logits, logits).kl, 0);
  EXPECT_EQ(NegativeLogLikelihood(logits, 0), 0);
}

TEST(DivergenceTest, NanAndInfinityAreNeverFinite) {
  const std::vector<float> good = {1, 2};
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> bad = {1, value};
    EXPECT_FALSE(ScorePosition(good, bad).finite);
    EXPECT_FALSE(ScorePosition(bad, good).finite);
    EXPECT_FALSE(ScorePosition(bad, bad).finite);
    EXPECT_TRUE(std::isnan(NegativeLogLikelihood(bad, 0)));
  }
}

TEST(DivergenceTest, OnePositionThatIsNotFiniteSpoilsTheSummary) {
  std::vector<PositionScore> scores(100, {.kl = 0, .same_top = true, .finite = true});
  scores[42] = {};
  const Divergence summary = Summarize(scores);
  EXPECT_EQ(summary.positions, 100);
  EXPECT_EQ(summary.not_finite, 1);
  EXPECT_TRUE(std::isnan(summary.kl_mean));
  EXPECT_TRUE(std::isnan(summary.kl_max));
  EXPECT_EQ(summary.top1, 0.99);
}

TEST(DivergenceTest, PercentilesInterpolateAsNumPyDoes) {
  std::vector<PositionScore> scores;
  for (const double kl : {4.0, 0.0, 3.0, 1.0, 2.0}) {
    scores.push_back({.kl = kl, .same_top = kl < 2, .finite = true});
  }
  const Divergence summary = Summarize(scores);
  EXPECT_EQ(summary.kl_mean, 2);
  EXPECT_EQ(summary.kl_median, 2);
  EXPECT_DOUBLE_EQ(summary.kl_p95, 3.8);   // np.percentile([0, 1, 2, 3, 4], 95)
  EXPECT_DOUBLE_EQ(summary.kl_p99, 3.96);  // and 99
  EXPECT_EQ(summary.kl_max, 4);
  EXPECT_EQ(summary.top1, 0.4);
}

TEST(DivergenceTest, PerplexityIsTheExponentialOfTheMean) {
  EXPECT_EQ(Perplexity({}), 1);
  EXPECT_DOUBLE_EQ(Perplexity(std::vector<double>{std::log(2.0), std::log(8.0)}), 4);
  EXPECT_TRUE(std::isnan(Perplexity(std::vector<double>{1, std::nan("")})));
}

}  // namespace
}  // namespace needle::verify
