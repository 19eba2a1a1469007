#include "converter/calibrate/kl_meter.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/session.h"

namespace needle::calibrate {
namespace {

using Logits = engine::Session::Logits;

// Logits at the positions that predict the answer's tokens, or at all positions.
absl::StatusOr<std::vector<float>> AnswerLogits(engine::Session& session, const Example& example) {
  session.Reset();
  std::span<const uint32_t> tokens(example.tokens);
  if (example.answer_start > 0) {
    const size_t first = std::min(example.answer_start, tokens.size()) - 1;
    if (first + 1 >= tokens.size()) return std::vector<float>();
    if (first > 0) RETURN_IF_ERROR(session.Prefill(tokens.first(first), Logits::kNone).status());
    tokens = tokens.subspan(first, tokens.size() - 1 - first);
  }
  ASSIGN_OR_RETURN(const auto logits, session.Prefill(tokens, Logits::kAll));
  return std::vector<float>(logits.begin(), logits.end());
}

// body(session, number of the example) for each example; the error of the first one that has one.
absl::Status ForEach(
    const engine::Model& model, size_t num_examples, base::ThreadPool& pool,
    const std::function<absl::Status(engine::Session& session, size_t example)>& body) {
  std::vector<absl::Status> statuses(num_examples);
  pool.ParallelFor(num_examples, 1, [&](size_t example, size_t, size_t) {
    engine::Session session(model);
    statuses[example] = body(session, example);
  });
  for (size_t i = 0; i < num_examples; ++i) {
    RETURN_IF_ERROR(base::WithContext(statuses[i], absl::StrCat("example ", i + 1)));
  }
  return absl::OkStatus();
}

}  // namespace

KlFigures SumUp(std::span<const std::vector<verify::PositionScore>> examples) {
  std::vector<verify::PositionScore> all;
  size_t exact = 0;
  for (const auto& scores : examples) {
    all.insert(all.end(), scores.begin(), scores.end());
    exact += std::all_of(scores.begin(), scores.end(), [](const auto& s) { return s.same_top; });
  }
  const verify::Divergence divergence = verify::Summarize(all);
  return {
      .positions = divergence.positions,
      .kl_mean = divergence.kl_mean,
      .top1 = divergence.top1,
      .sequences_exact =
          examples.empty() ? 1 : static_cast<double>(exact) / static_cast<double>(examples.size())};
}

absl::StatusOr<KlMeter> KlMeter::Make(const engine::Model& reference, std::vector<Example> examples,
                                      base::ThreadPool& pool) {
  KlMeter meter(std::move(examples), pool);
  meter.logits_.resize(meter.examples_.size());
  RETURN_IF_ERROR(ForEach(reference, meter.examples_.size(), pool,
                          [&](engine::Session& session, size_t i) -> absl::Status {
                            ASSIGN_OR_RETURN(meter.logits_[i],
                                             AnswerLogits(session, meter.examples_[i]));
                            return absl::OkStatus();
                          }));
  return meter;
}

absl::StatusOr<ExampleScores> KlMeter::Measure(const engine::Model& model, size_t step) const {
  const size_t rows = model.geometry().LogitRows();
  ExampleScores scores((examples_.size() + step - 1) / step);
  const auto score = [&](engine::Session& session, size_t i) -> absl::Status {
    const size_t example = i * step;
    ASSIGN_OR_RETURN(const std::vector<float> logits, AnswerLogits(session, examples_[example]));
    for (size_t at = 0; at < logits.size(); at += rows) {
      scores[i].push_back(verify::ScorePosition(std::span(logits_[example]).subspan(at, rows),
                                                std::span(logits).subspan(at, rows)));
      if (!scores[i].back().finite) return absl::DataLossError("logits that are not finite");
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ForEach(model, scores.size(), *pool_, score));
  return scores;
}

}  // namespace needle::calibrate
