#include "converter/calibrate/guard_measure.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "converter/verify/eval.h"
#include "converter/verify/verify_forward.h"

namespace needle::calibrate {
namespace {

GuardPair FromEval(const verify::EvalReport& report) {
  const verify::RunResult& reference = report.runs[0];
  const verify::RunResult& measured = report.runs[1];
  GuardPair pair;
  pair.reference.positions = reference.positions;
  pair.reference.perplexity = reference.perplexity;
  pair.reference.top1 = pair.reference.sequences_exact = 1;
  pair.measured = {.positions = measured.divergence->positions,
                   .kl_mean = measured.divergence->kl_mean,
                   .top1 = measured.divergence->top1,
                   .sequences_exact = measured.sequences_exact,
                   .perplexity = measured.perplexity};
  return pair;
}

GuardPair FromForward(const verify::ForwardReport& report) {
  GuardPair pair;
  pair.reference.positions = report.divergence.positions;
  pair.reference.perplexity = report.reference_perplexity;
  pair.reference.top1 = pair.reference.sequences_exact = 1;
  pair.measured = {.positions = report.divergence.positions,
                   .kl_mean = report.divergence.kl_mean,
                   .top1 = report.divergence.top1,
                   .sequences_exact = 0,
                   .perplexity = report.archive_perplexity};
  return pair;
}

}  // namespace

GuardMeter::GuardMeter(engine::Model reference, const CalibrationSet& set,
                       const engine::Tokenizer& tokenizer, size_t max_example_tokens,
                       size_t threads)
    : reference_(std::move(reference)),
      set_(set),
      tokenizer_(tokenizer),
      max_example_tokens_(max_example_tokens),
      threads_(threads) {}

absl::StatusOr<GuardMeter> GuardMeter::Make(std::shared_ptr<const engine::WeightSource> reference,
                                            const CalibrationSet& set,
                                            const engine::Tokenizer& tokenizer,
                                            size_t max_example_tokens, size_t threads) {
  ASSIGN_OR_RETURN(
      engine::Model model,
      engine::Model::Load(std::move(reference), {.numerics = engine::Numerics::kFloat}));
  return GuardMeter(std::move(model), set, tokenizer, max_example_tokens, threads);
}

absl::StatusOr<GuardPair> GuardMeter::Measure(
    std::shared_ptr<const engine::WeightSource> source) const {
  ASSIGN_OR_RETURN(const engine::Model model,
                   engine::Model::Load(std::move(source), {.numerics = engine::Numerics::kA8}));
  if (!set_.guard_examples.empty()) {
    const verify::EvalRun runs[] = {{"float", &reference_}, {"a8", &model}};
    verify::EvalOptions options;
    options.generate = false;
    options.max_tokens = max_example_tokens_;
    options.threads = threads_;
    ASSIGN_OR_RETURN(const verify::EvalReport report,
                     verify::Evaluate(runs, tokenizer_, set_.guard_examples, options));
    return FromEval(report);
  }
  std::vector<std::vector<uint32_t>> sequences;
  for (const Example& example : set_.guard.empty() ? set_.fit : set_.guard) {
    sequences.push_back(example.tokens);
  }
  verify::ForwardOptions options;
  options.threads = threads_;
  ASSIGN_OR_RETURN(const verify::ForwardReport report,
                   verify::VerifyForward(reference_, model, sequences, options));
  return FromForward(report);
}

}  // namespace needle::calibrate
