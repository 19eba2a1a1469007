#include "converter/verify/verify_forward.h"

#include <algorithm>
#include <mutex>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "converter/verify/eval_data.h"
#include "converter/verify/geometry_differences.h"
#include "engine/session.h"

namespace needle::verify {
namespace {

// What one sequence gave; likelihoods are of the next token, one fewer than positions.
struct SequenceResult {
  absl::Status status;
  std::vector<PositionScore> scores;
  std::vector<double> reference_nll;
  std::vector<double> archive_nll;
};

std::string Label(const engine::Model& model) {
  return absl::StrCat(model.source().name(), " (",
                      std::string(engine::NumericsName(model.numerics())), ")");
}

absl::Status RunSequence(engine::Session& reference, engine::Session& archive,
                         std::span<const uint32_t> tokens, SequenceResult& result) {
  reference.Reset();
  archive.Reset();
  ASSIGN_OR_RETURN(const auto wanted, reference.Prefill(tokens, engine::Session::Logits::kAll));
  ASSIGN_OR_RETURN(const auto found, archive.Prefill(tokens, engine::Session::Logits::kAll));
  const size_t rows = wanted.size() / tokens.size();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto p = wanted.subspan(i * rows, rows);
    const auto q = found.subspan(i * rows, rows);
    result.scores.push_back(ScorePosition(p, q));
    // Tokens past out_vocab are input-only: no likelihood to speak of.
    if (i + 1 == tokens.size() || tokens[i + 1] >= rows) continue;
    result.reference_nll.push_back(NegativeLogLikelihood(p, tokens[i + 1]));
    result.archive_nll.push_back(NegativeLogLikelihood(q, tokens[i + 1]));
  }
  return absl::OkStatus();
}

absl::Status RunAll(const engine::Model& reference, const engine::Model& archive,
                    std::span<const std::vector<uint32_t>> sequences, const ForwardOptions& options,
                    std::vector<SequenceResult>& results) {
  std::mutex mutex;
  size_t done = 0;
  bool cancelled = false;
  base::ThreadPool pool(base::ResolveThreads(options.threads));
  pool.ParallelFor(sequences.size(), 1, [&](size_t begin, size_t end, size_t) {
    engine::Session left(reference);
    engine::Session right(archive);
    for (size_t i = begin; i < end; ++i) {
      results[i].status = RunSequence(left, right, sequences[i], results[i]);
      const std::lock_guard lock(mutex);
      ++done;
      if (options.progress && !cancelled) cancelled = !options.progress(done, sequences.size());
    }
  });
  for (size_t i = 0; i < results.size(); ++i) {
    RETURN_IF_ERROR(base::WithContext(results[i].status, absl::StrCat("sequence ", i)));
  }
  return cancelled ? absl::CancelledError("verification was stopped") : absl::OkStatus();
}

void ApplyLimits(const ForwardLimits& limits, ForwardReport& report) {
  const Divergence& found = report.divergence;
  if (found.not_finite > 0) {
    report.failures.push_back(absl::StrFormat("%d of %d positions have logits that are not finite",
                                              found.not_finite, found.positions));
    return;
  }
  if (!(found.kl_mean <= limits.max_mean_kl)) {
    report.failures.push_back(
        absl::StrFormat("mean KL %.4g, want at most %g", found.kl_mean, limits.max_mean_kl));
  }
  if (!(found.kl_max <= limits.max_kl)) {
    report.failures.push_back(
        absl::StrFormat("largest KL %.4g, want at most %g", found.kl_max, limits.max_kl));
  }
  if (!(found.top1 >= limits.min_top1)) {
    report.failures.push_back(
        absl::StrFormat("top-1 agreement %.4g, want at least %g", found.top1, limits.min_top1));
  }
}

void Conclude(std::span<const SequenceResult> results, ForwardReport& report) {
  std::vector<PositionScore> scores;
  std::vector<double> reference_nll;
  std::vector<double> archive_nll;
  for (const SequenceResult& result : results) {
    scores.insert(scores.end(), result.scores.begin(), result.scores.end());
    reference_nll.insert(reference_nll.end(), result.reference_nll.begin(),
                         result.reference_nll.end());
    archive_nll.insert(archive_nll.end(), result.archive_nll.begin(), result.archive_nll.end());
  }
  report.divergence = Summarize(scores);
  report.predicted = reference_nll.size();
  report.reference_perplexity = Perplexity(reference_nll);
  report.archive_perplexity = Perplexity(archive_nll);
}

// kv_window masks attention in Needle 2 only.
std::vector<std::string> ShapeDifferences(const engine::Model& archive,
                                          const engine::Model& reference) {
  format::Geometry found = archive.geometry();
  if (found.generation == format::Generation::kNeedle3) {
    found.kv_window = reference.geometry().kv_window;
  }
  return GeometryDifferences(found, reference.geometry());
}

// Two requests as people make them, with names and numbers that must be copied.
constexpr std::string_view kBuiltInExamples =
    R"({"query":"turn on the attic light","tools":[{"name":"set_light","parameters":{"room":"string","state":"string"}}],"answers":[{"name":"set_light","arguments":{"room":"attic","state":"on"}}]}
{"query":"wake me at 06:45 and message Ana that I am late","tools":[{"name":"set_alarm","parameters":{"time":"string","label":"string"}},{"name":"send_message","parameters":{"to":"string","text":"string"}}],"answers":[{"name":"set_alarm","arguments":{"time":"06:45","label":""}},{"name":"send_message","arguments":{"to":"Ana","text":"I am late"}}]}
)";
constexpr size_t kBuiltInIds = 64;

}  // namespace

absl::StatusOr<ForwardReport> VerifyForward(const engine::Model& reference,
                                            const engine::Model& archive,
                                            std::span<const std::vector<uint32_t>> sequences,
                                            const ForwardOptions& options) {
  ForwardReport report{.reference = Label(reference), .archive = Label(archive)};
  report.reference_numerics = reference.numerics();
  report.archive_numerics = archive.numerics();
  report.sequences = sequences.size();
  report.failures = ShapeDifferences(archive, reference);
  if (sequences.empty()) report.failures.push_back("nothing to compare: no sequences");
  if (!report.failures.empty()) return report;
  std::vector<SequenceResult> results(sequences.size());
  RETURN_IF_ERROR(RunAll(reference, archive, sequences, options, results));
  Conclude(results, report);
  ApplyLimits(options.limits, report);
  return report;
}

std::vector<std::vector<uint32_t>> BuiltInSequences(const engine::Tokenizer* tokenizer,
                                                    const format::Geometry& geometry) {
  std::vector<std::vector<uint32_t>> sequences;
  if (tokenizer == nullptr) {
    std::mt19937 random(1);
    std::vector<uint32_t>& ids = sequences.emplace_back();
    for (size_t i = 0; i < kBuiltInIds; ++i) {
      ids.push_back(static_cast<uint32_t>(random()) % geometry.LogitRows());
    }
  } else if (const auto examples = ParseExamples(kBuiltInExamples, "built in"); examples.ok()) {
    for (const EvalExample& example : *examples) {
      sequences.push_back(EncodeTaught(*tokenizer, example).tokens);
    }
  }
  for (auto& ids : sequences) ids.resize(std::min<size_t>(ids.size(), geometry.max_seq_len));
  return sequences;
}

}  // namespace needle::verify
