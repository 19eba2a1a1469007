// converter/calibrate/calibrate.h: indices and norms chosen by what the activations say, inside the
// unchanged format. Specification: "Better choices inside the same format"; objectives, sources and
// figures: docs/quantisation.md.
#ifndef NEEDLE_CONVERTER_CALIBRATE_CALIBRATE_H_
#define NEEDLE_CONVERTER_CALIBRATE_CALIBRATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/calibrate/encoded_tensors.h"
#include "converter/tensor_plan.h"
#include "quant/codebook.h"

namespace needle::calibrate {

enum class Recipe : uint8_t {
  kRtn,     // plain rounding
  kSearch,  // norm search: no data needed
  kGptq,    // error feedback under the float model's inputs
  kBest,    // all steps of docs/quantisation.md, layer after layer
};
// "rtn", "search", "gptq", "best".
std::string_view RecipeName(Recipe recipe);
std::optional<Recipe> RecipeFromName(std::string_view name);
// Whether a recipe needs calibration data or a statistics file.
bool NeedsData(Recipe recipe);

// The steps of kBest, which are left out one by one to measure what each gains.
struct Steps {
  bool polish = true;      // joint refit of norms and sweeps over indices
  bool tables = true;      // engram tables by their consumers' metric
  bool sequential = true;  // inputs from the already quantised model, with corrected targets
};

struct CalibrateProgress {
  std::string_view phase;  // "text", "statistics", "layers", "guard"
  size_t done = 0;
  size_t total = 0;
};

struct CalibrateOptions {
  Recipe recipe = Recipe::kBest;
  // Examples as JSON Lines (as of verify::ReadExamples) when the name ends in .jsonl, otherwise
  // plain text; "self": text that the model itself writes. Needed by kGptq and kBest.
  std::optional<std::string> data;
  // A statistics file, written when there is none, else used instead of running the model over the
  // part that is fitted to (the result is the same). It must be of the same files, text and limits;
  // for kBest also of the same widths, codebook and steps, since inputs then depend on choices.
  std::optional<std::string> stats;
  quant::CodebookKind codebook = quant::CodebookKind::kReference;
  size_t threads = 0;  // 0: one per processor. Never shows in the result
  uint64_t seed = 1;   // of text that the model writes
  // The first examples, up to about so many tokens; the streams of all of them are in memory:
  // 8 * lanes * d bytes a token.
  size_t max_tokens = 32768;
  size_t max_example_tokens = 512;  // an example is cut there
  Steps steps;                      // read for kBest
  bool guard = true;                // measure on the guard part and go back where that is better
  // Called from one thread at a time; false stops with Cancelled.
  std::function<bool(const CalibrateProgress&)> progress;
};

// Squared error of a tensor's outputs over the outputs' squares, weighted by tokens: of plain
// rounding and of what the recipe chose.
struct ErrorPair {
  double plain = 0;
  double chosen = 0;
};

// A tensor, or one layer's rows of an mhc_phi tensor.
struct TensorCalibration {
  size_t position = 0;      // in the schema
  std::string name = {};    // canonical, for mhc_phi "mhc_phi_pre, layer 3"
  std::string recipe = {};  // what was done: "rtn", "search", "gptq", "best"
  ErrorPair weights = {};   // squared error over squared weights, without activations
  std::optional<ErrorPair> calibration = {};  // of outputs, on the part that was fitted to
  std::optional<ErrorPair> guard = {};        // of outputs, on the part that was held out
  double damping = 0;           // added to the moments, as a share of their mean diagonal
  uint32_t damping_raised = 0;  // how often it had to be raised for the factorisation to work
  uint64_t dead_inputs = 0;     // input channels that are always zero
  uint64_t rows = 0;
  uint64_t plain_rows = 0;    // rows that stayed with plain rounding because it was better
  std::string fallback = {};  // why the whole stayed with plain rounding; empty: it did not
};

// The model as a whole on held-out examples, against the float model.
struct GuardMeasure {
  uint64_t positions = 0;
  double kl_mean = 0;
  double top1 = 0;
  double sequences_exact = 0;  // examples where every greedy token is the float model's
  double perplexity = 1;
};

struct CalibrationReport {
  Recipe recipe = Recipe::kRtn;  // in the end: kRtn when plain rounding was better as a whole
  std::string data;              // path, "self"
  size_t examples = 0;           // fitted to
  size_t guard_examples = 0;
  uint64_t tokens = 0;         // fitted to
  uint64_t answer_tokens = 0;  // of them, positions that predict the answer
  std::vector<TensorCalibration> tensors;
  std::optional<GuardMeasure> guard_float, guard_plain, guard_chosen;  // a8, but for the first
  std::string fallback;               // why the whole model stayed with plain rounding
  std::vector<std::string> warnings;  // each begins with its name: "few-tokens: ..."
  double seconds = 0;
  uint64_t peak_bytes = 0;  // of streams, moments and weights, by this library's own count

  // Says it once.
  void AddWarning(const std::string& warning);
};

struct Calibration {
  // For BuildOptions::encoder of a build of the same plan with the same codebook.
  std::shared_ptr<const CalibratedEncoder> encoder;
  CalibrationReport report;
};

// Chooses indices and norms of every CQ tensor of `plan`. The result depends on plan, codebook,
// text and settings alone: not on threads or machine. InvalidArgument: the recipe needs data and
// there is none, no tokenizer, a statistics file of another model, text or setting (both named).
// DataLoss: the data cannot be read; a weight is not finite; activations that are not finite, with
// the example.
absl::StatusOr<Calibration> Calibrate(std::shared_ptr<const converter::TensorPlan> plan,
                                      const CalibrateOptions& options);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_CALIBRATE_H_
