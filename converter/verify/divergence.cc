#include "converter/verify/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace needle::verify {
namespace {

struct Logits {
  size_t top = 0;
  double log_sum = 0;  // of the exponentials; NaN when a logit is not finite
};

Logits Measure(std::span<const float> logits) {
  Logits result;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      result.log_sum = std::numeric_limits<double>::quiet_NaN();
      return result;
    }
    if (logits[i] > logits[result.top]) result.top = i;
  }
  const double largest = static_cast<double>(logits[result.top]);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  result.log_sum = largest + std::log(sum);
  return result;
}

// The value below which `share` of the ascending `values` (not empty) lie.
double Percentile(std::span<const double> values, double share) {
  const double place = share * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

void SetKl(std::vector<double> values, Divergence& result) {
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += value;
  result.kl_mean = sum / static_cast<double>(values.size());
  result.kl_median = Percentile(values, 0.5);
  result.kl_p95 = Percentile(values, 0.95);
  result.kl_p99 = Percentile(values, 0.99);
  result.kl_max = values.back();
}

}  // namespace

PositionScore ScorePosition(std::span<const float> reference, std::span<const float> other) {
  const Logits p = Measure(reference);
  const Logits q = Measure(other);
  PositionScore score;
  score.finite = std::isfinite(p.log_sum) && std::isfinite(q.log_sum);
  if (!score.finite) return score;
  score.same_top = p.top == q.top;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = static_cast<double>(reference[i]) - p.log_sum;
    const double log_q = static_cast<double>(other[i]) - q.log_sum;
    score.kl += std::exp(log_p) * (log_p - log_q);
  }
  return score;
}

double NegativeLogLikelihood(std::span<const float> logits, size_t token) {
  return Measure(logits).log_sum - static_cast<double>(logits[token]);
}

Divergence Summarize(std::span<const PositionScore> scores) {
  Divergence result;
  result.positions = scores.size();
  if (scores.empty()) return result;
  std::vector<double> values;
  uint64_t same = 0;
  for (const PositionScore& score : scores) {
    result.not_finite += score.finite ? 0U : 1U;
    same += score.finite && score.same_top ? 1U : 0U;
    values.push_back(score.kl);
  }
  result.top1 = static_cast<double>(same) / static_cast<double>(scores.size());
  if (result.not_finite == 0) {
    SetKl(std::move(values), result);
  } else {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    result.kl_mean = result.kl_median = result.kl_p95 = result.kl_p99 = result.kl_max = nan;
  }
  return result;
}

double Perplexity(std::span<const double> negative_log_likelihoods) {
  if (negative_log_likelihoods.empty()) return 1;
  double sum = 0;
  for (const double value : negative_log_likelihoods) sum += value;
  return std::exp(sum / static_cast<double>(negative_log_likelihoods.size()));
}

}  // namespace needle::verify
