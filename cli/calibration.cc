#include "cli/calibration.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/progress.h"
#include "cli/text_table.h"
#include "converter/calibrate/target_size.h"
#include "converter/checkpoint.h"

namespace needle::cli {
namespace {

using calibrate::CalibrationReport;

absl::StatusOr<calibrate::CalibrateOptions> CalibrateOptionsOf(const CalibrationOptions& options,
                                                               const CalibrationInput& input) {
  calibrate::CalibrateOptions result;
  const std::string name = options.recipe.value_or(options.data ? "best" : "rtn");
  result.recipe = calibrate::RecipeFromName(name).value_or(calibrate::Recipe::kRtn);
  result.data = options.data;
  result.stats = options.stats;
  result.codebook = input.codebook;
  result.threads = input.threads;
  if (options.data && !calibrate::NeedsData(result.recipe) && !options.has_target()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--calibrate is of no use to --recipe ", name, "; want gptq or best"));
  }
  if (options.stats && !calibrate::NeedsData(result.recipe)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stats is of no use to --recipe ", name, "; want gptq or best"));
  }
  return result;
}

// A bar for each phase of a calibration.
class PhaseProgress {
 public:
  explicit PhaseProgress(bool shown) : shown_(shown) {}

  bool Update(const calibrate::CalibrateProgress& state) {
    if (!progress_ || state.phase != phase_) {
      progress_.emplace(std::string(state.phase), shown_);
      phase_ = state.phase;
    }
    progress_->Update(state.done, state.total);
    return true;
  }

 private:
  bool shown_;
  std::string phase_;
  std::optional<Progress> progress_;
};

absl::StatusOr<CalibratedPlan> SearchPlan(const CalibrationOptions& options,
                                          const CalibrationInput& input,
                                          calibrate::CalibrateOptions calibrate_options) {
  calibrate::BitSearchOptions search;
  search.target_bits = options.target_bits;
  search.calibrate = std::move(calibrate_options);
  if (options.target_size) {
    ASSIGN_OR_RETURN(search.target_bytes, calibrate::ParseTargetSize(*options.target_size));
  }
  ASSIGN_OR_RETURN(auto checkpoint, converter::Checkpoint::Open(input.checkpoint));
  ASSIGN_OR_RETURN(calibrate::BitSearch found,
                   calibrate::SearchWidths(std::move(checkpoint), input.plan, search));
  return CalibratedPlan{std::move(found.plan), std::move(found.calibration),
                        std::move(found.report)};
}

base::Json GuardJson(const std::optional<calibrate::GuardMeasure>& guard) {
  if (!guard) return {};
  return {{"positions", guard->positions},
          {"kl_mean", guard->kl_mean},
          {"top1", guard->top1},
          {"sequences_exact", guard->sequences_exact},
          {"perplexity", guard->perplexity}};
}

base::Json ErrorsJson(const std::optional<calibrate::ErrorPair>& errors) {
  if (!errors) return {};
  return {{"plain", errors->plain}, {"chosen", errors->chosen}};
}

base::Json TensorJson(const calibrate::TensorCalibration& tensor) {
  return {{"name", tensor.name},
          {"recipe", tensor.recipe},
          {"weights", ErrorsJson(tensor.weights)},
          {"calibration", ErrorsJson(tensor.calibration)},
          {"guard", ErrorsJson(tensor.guard)},
          {"damping", tensor.damping},
          {"damping_raised", tensor.damping_raised},
          {"dead_inputs", tensor.dead_inputs},
          {"rows", tensor.rows},
          {"plain_rows", tensor.plain_rows},
          {"fallback", tensor.fallback}};
}

base::Json FiguresJson(const calibrate::KlFigures& figures) {
  return {{"positions", figures.positions},
          {"kl_mean", figures.kl_mean},
          {"top1", figures.top1},
          {"sequences_exact", figures.sequences_exact}};
}

base::Json KeyJson(const calibrate::KeySensitivity& key) {
  base::Json widths = base::Json::array();
  for (const calibrate::WidthSensitivity& width : key.widths) {
    widths.push_back({{"width", std::string(format::WidthText(width.width))},
                      {"bytes", width.bytes},
                      {"kl", width.kl},
                      {"cost", width.cost}});
  }
  return {{"key", key.key},
          {"chosen", std::string(format::WidthText(key.chosen))},
          {"widths", std::move(widths)}};
}

base::Json SchemeJson(const calibrate::SchemeMeasure& scheme) {
  return {{"name", scheme.name},
          {"bit_map", scheme.bit_map},
          {"bytes", scheme.file_bytes},
          {"bits", scheme.bits},
          {"predicted", scheme.predicted},
          {"all", FiguresJson(scheme.all)},
          {"guard", FiguresJson(scheme.guard)}};
}

std::string GuardLine(const char* name, const std::optional<calibrate::GuardMeasure>& guard) {
  if (!guard) return "";
  return absl::StrFormat("held out, %s: mean KL %.4g, top token %.2f%%, whole answers %.1f%%\n",
                         name, guard->kl_mean, 100 * guard->top1, 100 * guard->sequences_exact);
}

std::string ReportText(const CalibrationReport& report) {
  std::string text = absl::StrCat("recipe: ", std::string(calibrate::RecipeName(report.recipe)));
  if (!report.data.empty()) {
    absl::StrAppendFormat(&text, ", %d examples of %s (%d tokens, %d of answers), %d held out",
                          report.examples, report.data, report.tokens, report.answer_tokens,
                          report.guard_examples);
  }
  absl::StrAppendFormat(&text, ", %.1f s\n", report.seconds);
  return text + GuardLine("plain rounding", report.guard_plain) +
         GuardLine("calibrated", report.guard_chosen);
}

std::string TensorsText(const CalibrationReport& report) {
  TextTable table(
      {"tensor", "recipe", ">plain", ">chosen", ">plain, held", ">chosen, held", "kept"});
  for (const calibrate::TensorCalibration& tensor : report.tensors) {
    const calibrate::ErrorPair fit = tensor.calibration.value_or(tensor.weights);
    table.AddRow({tensor.name, tensor.recipe, ErrorText(fit.plain), ErrorText(fit.chosen),
                  tensor.guard ? ErrorText(tensor.guard->plain) : "-",
                  tensor.guard ? ErrorText(tensor.guard->chosen) : "-",
                  tensor.fallback.empty() ? "chosen" : "plain"});
  }
  return table.Text();
}

std::string SearchText(const calibrate::BitSearchReport& report) {
  TextTable table({"scheme", ">bytes", ">bits", ">mean KL", ">held out", ">whole answers", "map"});
  for (size_t i = 0; i < report.schemes.size(); ++i) {
    const calibrate::SchemeMeasure& scheme = report.schemes[i];
    table.AddRow({scheme.name + (i == report.chosen ? " *" : ""), absl::StrCat(scheme.file_bytes),
                  absl::StrFormat("%.3f", scheme.bits), ErrorText(scheme.all.kl_mean),
                  ErrorText(scheme.guard.kl_mean),
                  absl::StrFormat("%.1f%%", 100 * scheme.all.sequences_exact), scheme.bit_map});
  }
  return absl::StrFormat("widths, measured with %d examples of %s (%d tokens); * is kept:\n%s",
                         report.examples, report.data, report.tokens, table.Text());
}

std::string KeysText(const calibrate::BitSearchReport& report) {
  TextTable table({"key", "width", ">KL at 1", ">at 2", ">at 3", ">at 4"});
  for (const calibrate::KeySensitivity& key : report.keys) {
    std::vector<std::string> row = {key.key, std::string(format::WidthText(key.chosen))};
    for (const calibrate::WidthSensitivity& width : key.widths) row.push_back(ErrorText(width.kl));
    table.AddRow(std::move(row));
  }
  return table.Text();
}

}  // namespace

void AddCalibrationOptions(Command& command, CalibrationOptions* options) {
  command.Add({.names = "--recipe",
               .value = "rtn|search|gptq|best",
               .help = "how indices and norms are chosen: plain rounding, norm search, error "
                       "feedback, or all steps (default: best with --calibrate, else rtn)"},
              &options->recipe);
  command.Add({.names = "--calibrate",
               .value = "FILE",
               .help = "text to choose them by: JSON Lines as for eval (.jsonl), plain text, or "
                       "self for text that the model writes"},
              &options->data);
  command.Add({.names = "--stats",
               .value = "FILE",
               .help = "statistics of that text, written when there are none, else used again",
               .use = FileUse::kReadsOrWrites},
              &options->stats);
  command.Add({.names = "--target-size",
               .value = "SIZE",
               .help = "search the widths that serve best in a file of at most SIZE: bytes, or a "
                       "number with K, M (1024) or kB, MB (1000)"},
              &options->target_size);
  command.Add({.names = "--target-bits",
               .value = "B",
               .help = "the same for B bits an index on average, norms not counted"},
              &options->target_bits);
  command.Need("--stats", "--calibrate");
  command.Exclude("--target-size", "--target-bits");
  for (const char* target : {"--target-size", "--target-bits"}) {
    for (const char* other : {"--bits", "--bits-map", "--stats", "--dry-run"}) {
      command.Exclude(target, other);
    }
  }
}

const converter::TensorEncoder* CalibratedPlan::encoder() const {
  return calibration ? calibration->encoder.get() : nullptr;
}

absl::StatusOr<CalibratedPlan> PlanAndCalibrate(const CalibrationOptions& options,
                                                const CalibrationInput& input) {
  ASSIGN_OR_RETURN(calibrate::CalibrateOptions calibrate, CalibrateOptionsOf(options, input));
  PhaseProgress progress(input.show_progress);
  calibrate.progress = [&](const calibrate::CalibrateProgress& state) {
    return progress.Update(state);
  };
  if (options.has_target()) return SearchPlan(options, input, std::move(calibrate));
  ASSIGN_OR_RETURN(auto checkpoint, converter::Checkpoint::Open(input.checkpoint));
  ASSIGN_OR_RETURN(converter::TensorPlan made,
                   converter::TensorPlan::Make(std::move(checkpoint), input.plan));
  CalibratedPlan result{std::make_shared<const converter::TensorPlan>(std::move(made)), {}, {}};
  if (calibrate.recipe == calibrate::Recipe::kRtn) return result;
  ASSIGN_OR_RETURN(result.calibration, calibrate::Calibrate(result.plan, calibrate));
  return result;
}

base::Json CalibrationJson(const CalibratedPlan& plan) {
  if (!plan.calibration) return {};
  const CalibrationReport& report = plan.calibration->report;
  base::Json tensors = base::Json::array();
  for (const auto& tensor : report.tensors) tensors.push_back(TensorJson(tensor));
  return {{"recipe", std::string(calibrate::RecipeName(report.recipe))},
          {"data", report.data},
          {"examples", report.examples},
          {"guard_examples", report.guard_examples},
          {"tokens", report.tokens},
          {"answer_tokens", report.answer_tokens},
          {"guard_float", GuardJson(report.guard_float)},
          {"guard_plain", GuardJson(report.guard_plain)},
          {"guard_chosen", GuardJson(report.guard_chosen)},
          {"fallback", report.fallback},
          {"seconds", report.seconds},
          {"peak_bytes", report.peak_bytes},
          {"tensors", std::move(tensors)}};
}

base::Json BitSearchJson(const CalibratedPlan& plan) {
  if (!plan.search) return {};
  base::Json keys = base::Json::array();
  for (const auto& key : plan.search->keys) keys.push_back(KeyJson(key));
  base::Json schemes = base::Json::array();
  for (const auto& scheme : plan.search->schemes) schemes.push_back(SchemeJson(scheme));
  return {{"data", plan.search->data},
          {"examples", plan.search->examples},
          {"guard_examples", plan.search->guard_examples},
          {"sensitivity_examples", plan.search->sensitivity_examples},
          {"tokens", plan.search->tokens},
          {"bit_map", plan.search->schemes[plan.search->chosen].bit_map},
          {"chosen", plan.search->chosen},
          {"schemes", std::move(schemes)},
          {"keys", std::move(keys)}};
}

std::string CalibrationText(const CalibratedPlan& plan, bool verbose) {
  std::string text;
  if (plan.search) {
    text += SearchText(*plan.search);
    if (verbose) absl::StrAppend(&text, "\n", KeysText(*plan.search));
    text += "\n";
  }
  if (plan.calibration) {
    text += ReportText(plan.calibration->report);
    if (verbose && !plan.calibration->report.tensors.empty()) {
      absl::StrAppend(&text, "\n", TensorsText(plan.calibration->report));
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> CalibrationWarnings(const CalibratedPlan& plan) {
  std::vector<std::string> warnings;
  if (plan.search) warnings = plan.search->warnings;
  if (plan.calibration) {
    const auto& more = plan.calibration->report.warnings;
    warnings.insert(warnings.end(), more.begin(), more.end());
  }
  return warnings;
}

}  // namespace needle::cli
