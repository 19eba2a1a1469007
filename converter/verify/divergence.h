// converter/verify/divergence.h: how two models' next-token distributions differ over positions.
#ifndef NEEDLE_CONVERTER_VERIFY_DIVERGENCE_H_
#define NEEDLE_CONVERTER_VERIFY_DIVERGENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace needle::verify {

// One position. Natural logarithms, sums in f64.
struct PositionScore {
  double kl = 0;          // sum over tokens of p * (log p - log q), p the reference's
  bool same_top = false;  // both have the same most likely token (the lowest on a tie)
  bool finite = false;    // all logits of both are; kl and same_top say nothing otherwise
};
// `reference` and `other`: logits of the same, non-zero size.
PositionScore ScorePosition(std::span<const float> reference, std::span<const float> other);

// -log of the probability of `token` (< logits.size()); NaN when a logit is not finite.
double NegativeLogLikelihood(std::span<const float> logits, size_t token);

// Summary of scores. Percentiles interpolate linearly between order statistics.
struct Divergence {
  uint64_t positions = 0;
  uint64_t not_finite = 0;  // positions with a logit that is NaN or infinite; then kl_* are NaN
  double kl_mean = 0;
  double kl_median = 0;
  double kl_p95 = 0;
  double kl_p99 = 0;
  double kl_max = 0;
  double top1 = 0;  // share of positions with the same most likely token
};
Divergence Summarize(std::span<const PositionScore> scores);

// exp of the mean; 1 for no values, NaN when one is.
double Perplexity(std::span<const double> negative_log_likelihoods);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_DIVERGENCE_H_
