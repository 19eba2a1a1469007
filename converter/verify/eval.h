// converter/verify/eval.h: how well models call tools, alone and against each other. Specification:
// "Prompt".
#ifndef NEEDLE_CONVERTER_VERIFY_EVAL_H_
#define NEEDLE_CONVERTER_VERIFY_EVAL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/verify/divergence.h"
#include "converter/verify/eval_data.h"
#include "engine/model.h"
#include "engine/tokenizer.h"

namespace needle::verify {

// A model to evaluate: weights and numerics. Load it with one thread when EvalOptions.threads > 1.
struct EvalRun {
  std::string label;                     // in the report, "tuned.cact (kernel)"
  const engine::Model* model = nullptr;  // not null; outlives the call
};

struct EvalOptions {
  bool generate = true;         // greedy answers and exact calls
  bool teacher_forced = true;   // perplexity, and KL and agreement when there are several runs
  size_t max_new_tokens = 256;  // of a greedy answer
  size_t max_tokens = 0;        // of a teacher-forced example, prompt included; 0: max_seq_len
  size_t threads = 1;           // examples run at the same time; 0: one per processor. Never shows
  // Called from one thread at a time after each example; false stops with Cancelled.
  std::function<bool(size_t done, size_t total)> progress;
};

// Of the greedy answers of one run.
struct CallCounts {
  uint64_t examples = 0;
  uint64_t exact = 0;          // names and arguments of all calls, in order
  uint64_t unparsable = 0;     // no readable list of calls
  uint64_t over_calling = 0;   // readable, more calls than wanted
  uint64_t under_calling = 0;  // readable, fewer calls than wanted
  uint64_t new_tokens = 0;     // generated, EOS not counted
};

struct RunResult {
  std::string label;
  engine::Numerics numerics = engine::Numerics::kFloat;
  CallCounts calls = {};
  // Teacher-forced: over the answer (with <|im_end|>) and EOS.
  uint64_t positions = 0;
  double perplexity = 1;
  // Against the first run; not in the first run itself.
  std::optional<Divergence> divergence = std::nullopt;
  double sequences_exact = 0;  // share of examples where all most likely tokens are the first run's
  // What `divergence` sums up: [example][position of the answer], by example run, in file order.
  std::vector<std::vector<PositionScore>> scores = {};
};

// An example whose greedy answers are not the same text in all runs.
struct ChangedAnswer {
  size_t line = 0;
  std::string query;
  std::string wanted = {};                // compact JSON
  std::vector<std::string> answers = {};  // one for each run
  std::vector<bool> exact = {};           // one for each run
};

struct EvalReport {
  size_t examples = 0;           // that were run
  std::vector<size_t> too_long;  // lines whose prompt leaves no room to answer; not run
  std::vector<RunResult> runs;   // in the order given
  std::vector<ChangedAnswer> changed;
  // With `generate`: answers[run][example], by example run, in file order.
  std::vector<std::vector<std::string>> answers;
};

// Runs every example through every run. The first run is what the others are compared with: give
// the float checkpoint first. All runs must have the same vocabulary (InvalidArgument otherwise, as
// for no runs, no examples, and a max_tokens that leaves nothing of them). The same report for any
// number of threads. Internal: a logit is not finite while generating, with run and line.
absl::StatusOr<EvalReport> Evaluate(std::span<const EvalRun> runs,
                                    const engine::Tokenizer& tokenizer,
                                    std::span<const EvalExample> examples,
                                    const EvalOptions& options);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_EVAL_H_
