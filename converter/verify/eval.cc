#include "converter/verify/eval.h"

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "converter/verify/call_score.h"
#include "engine/generate.h"
#include "engine/session.h"
#include "engine/tool_calls.h"

namespace needle::verify {
namespace {

// What one example gave in one run.
struct ExampleResult {
  std::string answer;
  size_t new_tokens = 0;
  CallScore score;
  std::vector<double> nll;            // a value an answer position
  std::vector<PositionScore> scores;  // against the first run; empty in that
};

// A row of logits for each position that predicts a token of the answer.
struct AnswerLogits {
  std::vector<float> values = {};
  size_t rows = 0;  // of the logits
  std::span<const float> At(size_t position) const {
    return std::span<const float>(values).subspan(position * rows, rows);
  }
};

class ExampleEval {
 public:
  ExampleEval(std::span<const EvalRun> runs, const engine::Tokenizer& tokenizer,
              const EvalOptions& options)
      : runs_(runs), tokenizer_(tokenizer), options_(options) {}

  // `results`: one for each run.
  absl::Status Run(const EvalExample& example, std::vector<ExampleResult>& results) const {
    const TaughtTokens taught = EncodeTaught(tokenizer_, example);
    AnswerLogits reference;
    for (size_t run = 0; run < runs_.size(); ++run) {
      engine::Session session(*runs_[run].model);
      if (options_.generate) {
        RETURN_IF_ERROR(Generate(session, example, taught, results[run]));
      }
      if (!options_.teacher_forced) continue;
      session.Reset();
      ASSIGN_OR_RETURN(AnswerLogits logits, ForceAnswer(session, taught));
      Score(taught, logits, run == 0 ? nullptr : &reference, results[run]);
      if (run == 0) reference = std::move(logits);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Generate(engine::Session& session, const EvalExample& example,
                        const TaughtTokens& taught, ExampleResult& result) const {
    const auto prompt = std::span<const uint32_t>(taught.tokens).first(taught.answer_start);
    engine::GenerateOptions generate;
    generate.max_new_tokens = options_.max_new_tokens;
    generate.eos_id = tokenizer_.table().eos_id;
    ASSIGN_OR_RETURN(const engine::Completion completion,
                     engine::Generate(session, prompt, generate));
    result.answer = tokenizer_.Decode(completion.tokens);
    result.new_tokens = completion.tokens.size();
    result.score = ScoreCalls(example.answers, engine::ParseAnswer(result.answer));
    return absl::OkStatus();
  }

  // Tokens of a teacher-forced example that are used.
  size_t Limit(const TaughtTokens& taught) const {
    const size_t most = runs_[0].model->geometry().max_seq_len;
    const size_t limit = options_.max_tokens == 0 ? most : std::min(most, options_.max_tokens);
    return std::min(taught.tokens.size(), limit);
  }

  absl::StatusOr<AnswerLogits> ForceAnswer(engine::Session& session,
                                           const TaughtTokens& taught) const {
    AnswerLogits result{.rows = session.model().geometry().LogitRows()};
    const size_t limit = Limit(taught);
    if (limit <= taught.answer_start) return result;
    const std::span<const uint32_t> tokens(taught.tokens);
    const size_t first = taught.answer_start - 1;  // its logits predict the answer's first token
    if (first > 0) {
      RETURN_IF_ERROR(
          session.Prefill(tokens.first(first), engine::Session::Logits::kNone).status());
    }
    ASSIGN_OR_RETURN(const auto logits, session.Prefill(tokens.subspan(first, limit - 1 - first),
                                                        engine::Session::Logits::kAll));
    result.values.assign(logits.begin(), logits.end());
    return result;
  }

  void Score(const TaughtTokens& taught, const AnswerLogits& logits, const AnswerLogits* reference,
             ExampleResult& result) const {
    const size_t positions = logits.values.size() / logits.rows;
    for (size_t i = 0; i < positions; ++i) {
      const uint32_t token = taught.tokens[taught.answer_start + i];
      if (token < logits.rows) result.nll.push_back(NegativeLogLikelihood(logits.At(i), token));
      if (reference != nullptr) {
        result.scores.push_back(ScorePosition(reference->At(i), logits.At(i)));
      }
    }
  }

  std::span<const EvalRun> runs_;
  const engine::Tokenizer& tokenizer_;
  const EvalOptions& options_;
};

using ExampleResults = std::vector<std::vector<ExampleResult>>;  // [example][run]

absl::Status RunAll(const ExampleEval& eval, std::span<const EvalExample* const> examples,
                    const EvalOptions& options, ExampleResults& results) {
  std::mutex mutex;
  size_t done = 0;
  size_t error_example = SIZE_MAX;
  absl::Status error;
  bool cancelled = false;
  base::ThreadPool pool(base::ResolveThreads(options.threads));
  pool.ParallelFor(examples.size(), 1, [&](size_t i, size_t, size_t) {
    {
      const std::lock_guard lock(mutex);
      if (cancelled || i > error_example) return;
    }
    const absl::Status status = eval.Run(*examples[i], results[i]);
    const std::lock_guard lock(mutex);
    ++done;
    if (!status.ok() && i < error_example) {
      error_example = i;
      error = base::WithContext(status, absl::StrCat("line ", examples[i]->line));
    }
    if (options.progress && !cancelled) cancelled = !options.progress(done, examples.size());
  });
  RETURN_IF_ERROR(error);
  return cancelled ? absl::CancelledError("evaluation was stopped") : absl::OkStatus();
}

void CountCalls(const ExampleResult& result, CallCounts& counts) {
  const CallScore& score = result.score;
  ++counts.examples;
  counts.new_tokens += result.new_tokens;
  counts.exact += score.exact ? 1U : 0U;
  counts.unparsable += score.parsed ? 0U : 1U;
  counts.over_calling += score.parsed && score.called > score.wanted ? 1U : 0U;
  counts.under_calling += score.parsed && score.called < score.wanted ? 1U : 0U;
}

bool AllTopsSame(const ExampleResult& result) {
  return std::all_of(result.scores.begin(), result.scores.end(),
                     [](const PositionScore& score) { return score.finite && score.same_top; });
}

RunResult SumUpRun(const EvalRun& run, size_t number, const ExampleResults& results,
                   const EvalOptions& options) {
  RunResult sum{.label = run.label, .numerics = run.model->numerics()};
  std::vector<double> nll;
  std::vector<PositionScore> scores;
  size_t same = 0;
  for (const auto& example : results) {
    const ExampleResult& result = example[number];
    if (options.generate) CountCalls(result, sum.calls);
    nll.insert(nll.end(), result.nll.begin(), result.nll.end());
    scores.insert(scores.end(), result.scores.begin(), result.scores.end());
    same += AllTopsSame(result) ? 1U : 0U;
  }
  sum.positions = nll.size();
  sum.perplexity = Perplexity(nll);
  if (number == 0 || !options.teacher_forced) return sum;
  sum.divergence = Summarize(scores);
  for (const auto& example : results) sum.scores.push_back(example[number].scores);
  sum.sequences_exact = static_cast<double>(same) / static_cast<double>(results.size());
  return sum;
}

// Nothing when all runs gave the same text.
std::optional<ChangedAnswer> Compare(const EvalExample& example,
                                     const std::vector<ExampleResult>& results) {
  ChangedAnswer changed{.line = example.line, .query = example.request.query};
  bool is_same = true;
  for (const ExampleResult& result : results) {
    is_same = is_same && result.answer == results[0].answer;
    changed.answers.push_back(result.answer);
    changed.exact.push_back(result.score.exact);
  }
  if (is_same) return std::nullopt;
  changed.wanted = base::DumpJson(example.answers);
  return changed;
}

absl::Status CheckArguments(std::span<const EvalRun> runs, std::span<const EvalExample> examples) {
  if (runs.empty()) return absl::InvalidArgumentError("no model to evaluate");
  if (examples.empty()) return absl::InvalidArgumentError("no examples to evaluate with");
  const format::Geometry& first = runs[0].model->geometry();
  for (const EvalRun& run : runs) {
    const format::Geometry& geometry = run.model->geometry();
    if (geometry.vocab == first.vocab && geometry.LogitRows() == first.LogitRows()) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: vocabulary of %d (%d in the output), want the %d (%d) of %s", run.label,
        geometry.vocab, geometry.LogitRows(), first.vocab, first.LogitRows(), runs[0].label));
  }
  return absl::OkStatus();
}

// The shortest context of all runs.
size_t Context(std::span<const EvalRun> runs) {
  size_t context = SIZE_MAX;
  for (const EvalRun& run : runs) {
    context = std::min<size_t>(context, run.model->geometry().max_seq_len);
  }
  return context;
}

// That not every answer is cut away: figures over nothing would look perfect.
absl::Status CheckPositions(std::span<const EvalExample* const> examples,
                            const engine::Tokenizer& tokenizer, const EvalOptions& options) {
  if (!options.teacher_forced || options.max_tokens == 0) return absl::OkStatus();
  size_t shortest = SIZE_MAX;
  for (const EvalExample* example : examples) {
    shortest = std::min(shortest, engine::EncodePrompt(tokenizer, example->request).size());
  }
  if (shortest < options.max_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("a length of %d tokens leaves nothing of any answer to compare, the shortest "
                      "prompt has %d",
                      options.max_tokens, shortest));
}

}  // namespace

absl::StatusOr<EvalReport> Evaluate(std::span<const EvalRun> runs,
                                    const engine::Tokenizer& tokenizer,
                                    std::span<const EvalExample> examples,
                                    const EvalOptions& options) {
  RETURN_IF_ERROR(CheckArguments(runs, examples));
  EvalReport report;
  std::vector<const EvalExample*> chosen;
  for (const EvalExample& example : examples) {
    if (engine::EncodePrompt(tokenizer, example.request).size() < Context(runs)) {
      chosen.push_back(&example);
    } else {
      report.too_long.push_back(example.line);
    }
  }
  if (chosen.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "all %d prompts are longer than the context of %d tokens", examples.size(), Context(runs)));
  }
  RETURN_IF_ERROR(CheckPositions(chosen, tokenizer, options));
  report.examples = chosen.size();
  ExampleResults results(chosen.size(), std::vector<ExampleResult>(runs.size()));
  RETURN_IF_ERROR(RunAll(ExampleEval(runs, tokenizer, options), chosen, options, results));
  for (size_t run = 0; run < runs.size(); ++run) {
    report.runs.push_back(SumUpRun(runs[run], run, results, options));
  }
  for (size_t i = 0; options.generate && i < chosen.size(); ++i) {
    if (auto changed = Compare(*chosen[i], results[i]))
      report.changed.push_back(*std::move(changed));
  }
  if (!options.generate) return report;
  report.answers.resize(runs.size());
  for (size_t run = 0; run < runs.size(); ++run) {
    for (const auto& example : results) report.answers[run].push_back(example[run].answer);
  }
  return report;
}

}  // namespace needle::verify
