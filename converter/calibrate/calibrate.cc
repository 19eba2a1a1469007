#include "converter/calibrate/calibrate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "converter/calibrate/calibration_set.h"
#include "converter/calibrate/guard_measure.h"
#include "converter/calibrate/model_fit.h"
#include "converter/calibrate/self_text.h"
#include "converter/calibrate/stats_file.h"
#include "converter/tensor_source.h"
#include "converter/verify/plan_weights.h"
#include "quant/norm_search.h"

namespace needle::calibrate {
namespace {

constexpr std::array<std::string_view, 4> kRecipeNames = {"rtn", "search", "gptq", "best"};

// Plain rounding costs an ordinary checkpoint perplexity; one that gains half a percent was trained
// for it.
constexpr double kAwarePerplexity = 0.995;

// One call of Calibrate.
class Job {
 public:
  Job(std::shared_ptr<const converter::TensorPlan> plan, const CalibrateOptions& options)
      : plan_(std::move(plan)),
        options_(options),
        threads_(base::ResolveThreads(options.threads)),
        pool_(threads_) {}

  absl::StatusOr<Calibration> Run();

 private:
  absl::StatusOr<std::shared_ptr<const EncodedTensors>> Search(const EncodedTensors& plain);
  absl::StatusOr<std::shared_ptr<const EncodedTensors>> Fit(
      std::shared_ptr<const EncodedTensors> plain);
  bool IsSelf() const { return options_.data == kSelfText; }
  absl::StatusOr<base::Json> StatsKey() const;
  absl::StatusOr<CalibrationSet> ReadSet(const engine::Tokenizer& tokenizer, StatsFile* stats);
  // Goes back to plain rounding when the guard part says so.
  absl::Status Judge(const CalibrationSet& set, const engine::Tokenizer& tokenizer,
                     const std::shared_ptr<const EncodedTensors>& plain,
                     std::shared_ptr<const EncodedTensors>& chosen);
  absl::Status Tell(std::string_view phase, size_t done, size_t total) const;

  std::shared_ptr<const converter::TensorPlan> plan_;
  const CalibrateOptions& options_;
  size_t threads_;
  base::ThreadPool pool_;
  CalibrationReport report_;
};

absl::Status Job::Tell(std::string_view phase, size_t done, size_t total) const {
  if (!options_.progress || options_.progress({phase, done, total})) return absl::OkStatus();
  return absl::CancelledError("calibration was stopped");
}

absl::StatusOr<Calibration> Job::Run() {
  const base::Stopwatch watch;
  report_.recipe = options_.recipe;
  ASSIGN_OR_RETURN(EncodedTensors rounded,
                   EncodeAll(*plan_, options_.codebook, quant::EncodeRows, "rtn", pool_));
  const auto plain = std::make_shared<const EncodedTensors>(std::move(rounded));
  std::shared_ptr<const EncodedTensors> chosen = plain;
  if (options_.recipe == Recipe::kSearch) {
    ASSIGN_OR_RETURN(chosen, Search(*plain));
  } else if (NeedsData(options_.recipe)) {
    ASSIGN_OR_RETURN(chosen, Fit(plain));
  }
  report_.seconds = watch.Seconds();
  return Calibration{std::make_shared<const CalibratedEncoder>(std::move(chosen)),
                     std::move(report_)};
}

absl::StatusOr<std::shared_ptr<const EncodedTensors>> Job::Search(const EncodedTensors& plain) {
  ASSIGN_OR_RETURN(EncodedTensors chosen,
                   EncodeAll(*plan_, options_.codebook, quant::SearchRows, "search", pool_));
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!chosen[i]) continue;
    TensorCalibration result{
        .position = i, .name = plan_->schema().tensors()[i].name, .recipe = "search"};
    result.rows = chosen[i]->layout.rows;
    ASSIGN_OR_RETURN(const std::vector<float> weights,
                     converter::ReadTensor(*plan_, plan_->schema(), i));
    const auto error = [&](const EncodedTensor& tensor) -> absl::StatusOr<double> {
      ASSIGN_OR_RETURN(const quant::EncodeStats stats,
                       quant::MeasureRows(weights, tensor.layout.cols, tensor.codebook,
                                          tensor.indices, tensor.Norms(0, tensor.layout.rows)));
      return stats.RelativeError();
    };
    ASSIGN_OR_RETURN(result.weights.plain, error(*plain[i]));
    ASSIGN_OR_RETURN(result.weights.chosen, error(*chosen[i]));
    report_.tensors.push_back(std::move(result));
  }
  return std::make_shared<const EncodedTensors>(std::move(chosen));
}

// Everything that the moments depend on.
absl::StatusOr<base::Json> Job::StatsKey() const {
  std::vector<std::string> sums;
  for (const std::string& path : plan_->files()) {
    ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
    sums.push_back(base::Sha256Hex(file.bytes()));
  }
  base::Json key = {{"files", sums},
                    {"tokenizer", base::Sha256Hex(plan_->tokenizer())},
                    {"blocks", plan_->selection().layers},
                    {"rebalanced", !plan_->balances().empty()},
                    {"max_tokens", options_.max_tokens},
                    {"max_example_tokens", options_.max_example_tokens}};
  if (IsSelf()) {
    key["data"] = {kSelfText, options_.seed};
  } else {
    ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(*options_.data));
    key["data"] = base::Sha256Hex(file.bytes());
  }
  const bool sequential = options_.recipe == Recipe::kBest && options_.steps.sequential;
  key["inputs"] = sequential ? "sequential" : "float";
  if (!sequential) return key;
  std::vector<std::string> widths;
  for (size_t i = 0; i < plan_->widths().size(); ++i) {
    const format::TensorSpec& spec = plan_->schema().tensors()[i];
    if (spec.dtype == format::DType::kCq) {
      widths.push_back(
          absl::StrCat(spec.name, "=", std::string(format::WidthText(plan_->widths()[i]))));
    }
  }
  key["widths"] = widths;
  key["codebook"] = options_.codebook == quant::CodebookKind::kReference ? "reference" : "analytic";
  key["steps"] = {options_.steps.polish, options_.steps.tables, options_.guard};
  return key;
}

absl::StatusOr<CalibrationSet> Job::ReadSet(const engine::Tokenizer& tokenizer, StatsFile* stats) {
  const SetLimits limits = {options_.max_tokens, options_.max_example_tokens};
  if (!IsSelf()) {
    RETURN_IF_ERROR(Tell("text", 0, 1));
    return ReadCalibrationSet(*options_.data, tokenizer, plan_->geometry(), limits);
  }
  if (stats != nullptr && stats->is_reading()) return SelfTextFromJson(stats->self(), limits);
  return WriteSelfText(
      std::make_shared<verify::PlanWeights>(plan_), tokenizer,
      {.limits = limits,
       .seed = options_.seed,
       .threads = threads_,
       .progress = [this](size_t done, size_t wanted) { return Tell("text", done, wanted).ok(); }});
}

absl::StatusOr<std::shared_ptr<const EncodedTensors>> Job::Fit(
    std::shared_ptr<const EncodedTensors> plain) {
  if (!options_.data) {
    return absl::InvalidArgumentError(
        absl::StrCat("recipe ", std::string(RecipeName(options_.recipe)),
                     " needs text: --calibrate FILE, or self for text that the model writes"));
  }
  ASSIGN_OR_RETURN(const engine::Tokenizer tokenizer,
                   engine::Tokenizer::FromSource(verify::PlanWeights(plan_)));
  std::optional<StatsFile> stats;
  if (options_.stats) {
    ASSIGN_OR_RETURN(const base::Json key, StatsKey());
    ASSIGN_OR_RETURN(stats, StatsFile::Open(*options_.stats, key));
  }
  ASSIGN_OR_RETURN(const CalibrationSet set, ReadSet(tokenizer, stats ? &*stats : nullptr));
  if (stats && !stats->is_reading()) {
    RETURN_IF_ERROR(stats->Start(IsSelf() ? SelfTextToJson(set) : base::Json()));
  }
  report_.data = set.name;
  report_.examples = set.fit.size();
  report_.guard_examples = set.guard.size();
  report_.tokens = CountTokens(set.fit);
  report_.answer_tokens = CountAnswerPositions(set.fit);
  report_.warnings = set.warnings;
  if (set.guard.empty()) {
    report_.AddWarning(absl::StrFormat(
        "no-guard: %d examples leave none to hold out; the model is compared with plain rounding "
        "on the text that it was fitted to",
        set.fit.size()));
  }
  ModelFit fit(plan_, *plain, set, options_, stats ? &*stats : nullptr, pool_, report_);
  ASSIGN_OR_RETURN(std::shared_ptr<const EncodedTensors> chosen, fit.Run());
  if (stats && !stats->is_reading()) RETURN_IF_ERROR(stats->Finish());
  if (options_.guard) RETURN_IF_ERROR(Judge(set, tokenizer, plain, chosen));
  return chosen;
}

absl::Status Job::Judge(const CalibrationSet& set, const engine::Tokenizer& tokenizer,
                        const std::shared_ptr<const EncodedTensors>& plain,
                        std::shared_ptr<const EncodedTensors>& chosen) {
  RETURN_IF_ERROR(Tell("guard", 0, 2));
  ASSIGN_OR_RETURN(const GuardMeter meter,
                   GuardMeter::Make(std::make_shared<verify::PlanWeights>(plan_), set, tokenizer,
                                    options_.max_example_tokens, threads_));
  ASSIGN_OR_RETURN(const GuardPair before,
                   meter.Measure(std::make_shared<EncodedWeights>(plan_, plain)));
  RETURN_IF_ERROR(Tell("guard", 1, 2));
  ASSIGN_OR_RETURN(const GuardPair after,
                   meter.Measure(std::make_shared<EncodedWeights>(plan_, chosen)));
  report_.guard_float = before.reference;
  report_.guard_plain = before.measured;
  report_.guard_chosen = after.measured;
  if (before.measured.perplexity < kAwarePerplexity * before.reference.perplexity) {
    report_.AddWarning(absl::StrFormat(
        "quantisation-aware: plain rounding predicts the guard part better than the float model "
        "(perplexity %.5g against %.5g): the checkpoint may be trained for it; compare with rtn",
        before.measured.perplexity, before.reference.perplexity));
  }
  if (after.measured.kl_mean < before.measured.kl_mean) return absl::OkStatus();
  report_.fallback = absl::StrFormat("mean KL on the guard part %.4g, plain rounding %.4g",
                                     after.measured.kl_mean, before.measured.kl_mean);
  report_.AddWarning("plain-kept: the whole model: " + report_.fallback);
  report_.recipe = Recipe::kRtn;
  chosen = plain;
  return absl::OkStatus();
}

}  // namespace

void CalibrationReport::AddWarning(const std::string& warning) {
  if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
}

std::string_view RecipeName(Recipe recipe) { return kRecipeNames[static_cast<size_t>(recipe)]; }

std::optional<Recipe> RecipeFromName(std::string_view name) {
  const auto found = std::ranges::find(kRecipeNames, name);
  if (found == kRecipeNames.end()) return std::nullopt;
  return static_cast<Recipe>(found - kRecipeNames.begin());
}

bool NeedsData(Recipe recipe) { return recipe == Recipe::kGptq || recipe == Recipe::kBest; }

absl::StatusOr<Calibration> Calibrate(std::shared_ptr<const converter::TensorPlan> plan,
                                      const CalibrateOptions& options) {
  return Job(std::move(plan), options).Run();
}

}  // namespace needle::calibrate
