#include "cli/calibration.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/text_table.h"

namespace needle::cli {
namespace {

base::Json PairJson(const std::optional<calibrate::ErrorPair>& pair) {
  if (!pair) return nullptr;
  return {{"plain", pair->plain}, {"chosen", pair->chosen}};
}

base::Json GuardJson(const std::optional<calibrate::GuardMeasure>& guard) {
  if (!guard) return nullptr;
  return {{"positions", guard->positions},
          {"kl_mean", guard->kl_mean},
          {"top1", guard->top1},
          {"sequences_exact", guard->sequences_exact},
          {"perplexity", guard->perplexity}};
}

base::Json TensorJson(const calibrate::TensorCalibration& tensor) {
  return {{"name", tensor.name},
          {"recipe", tensor.recipe},
          {"weights", PairJson(tensor.weights)},
          {"calibration", PairJson(tensor.calibration)},
          {"guard", PairJson(tensor.guard)},
          {"damping", tensor.damping},
          {"damping_raised", tensor.damping_raised},
          {"dead_inputs", tensor.dead_inputs},
          {"rows", tensor.rows},
          {"plain_rows", tensor.plain_rows},
          {"fallback", tensor.fallback}};
}

std::string PairText(const std::optional<calibrate::ErrorPair>& pair) {
  return pair ? absl::StrCat(ErrorText(pair->plain), " -> ", ErrorText(pair->chosen)) : "";
}

std::string GuardLine(const char* name, const std::optional<calibrate::GuardMeasure>& guard) {
  if (!guard) return "";
  return absl::StrFormat(
      "  %s: mean KL %.4g, same likeliest token %.2f %%, same answer %.1f %%, perplexity %.4f\n",
      name, guard->kl_mean, guard->top1 * 100, guard->sequences_exact * 100, guard->perplexity);
}

std::string TensorsText(const calibrate::CalibrationReport& report) {
  TextTable table({"tensor", "recipe", "weight error", "output error", "held out", ">plain rows"});
  for (const calibrate::TensorCalibration& tensor : report.tensors) {
    table.AddRow({tensor.name, tensor.recipe, PairText(tensor.weights),
                  PairText(tensor.calibration), PairText(tensor.guard),
                  absl::StrCat(tensor.plain_rows, " of ", tensor.rows)});
  }
  return table.Text();
}

}  // namespace

void AddCalibrationOptions(Command& command, CalibrationOptions* options) {
  command.Add(
      {.names = "--calibrate",
       .value = "FILE",
       .help = "text to choose indices and norms by: examples as JSON Lines, or plain text; "
               "\"self\" for text that the model writes"},
      &options->data);
  command.Add(
      {.names = "--recipe",
       .value = "rtn|search|gptq|best",
       .help = "how to choose them: plain rounding, norm search, error feedback, everything "
               "(default: best with --calibrate, else rtn)"},
      &options->recipe);
  command.Add({.names = "--stats",
               .value = "FILE",
               .help = "statistics of the text: written when the file does not exist, else used"},
              &options->stats);
  command.Add(
      {.names = "--seed", .value = "N", .help = "of the text that the model writes (default 1)"},
      &options->seed);
  command.Need("--stats", "--calibrate");
  command.Need("--seed", "--calibrate");
}

std::optional<calibrate::CalibrateOptions> CalibrateOptionsOf(const CalibrationOptions& options) {
  const auto fallback = options.data ? calibrate::Recipe::kBest : calibrate::Recipe::kRtn;
  const calibrate::Recipe recipe =
      options.recipe ? calibrate::RecipeFromName(*options.recipe).value_or(fallback) : fallback;
  if (recipe == calibrate::Recipe::kRtn) return std::nullopt;
  calibrate::CalibrateOptions calibrate;
  calibrate.recipe = recipe;
  calibrate.data = options.data;
  calibrate.stats = options.stats;
  calibrate.seed = options.seed;
  return calibrate;
}

base::Json CalibrationJson(const calibrate::CalibrationReport& report) {
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
          {"tensors", tensors}};
}

std::string CalibrationText(const calibrate::CalibrationReport& report, bool verbose) {
  std::string text =
      absl::StrFormat("recipe: %s", std::string(calibrate::RecipeName(report.recipe)));
  if (report.examples > 0) {
    absl::StrAppendFormat(&text, ", fitted to %d examples (%d tokens) of %s, %d held out",
                          report.examples, report.tokens, report.data, report.guard_examples);
  }
  absl::StrAppendFormat(&text, ", %.1f s\n", report.seconds);
  absl::StrAppend(&text, GuardLine("plain rounding, held out", report.guard_plain),
                  GuardLine("this archive, held out", report.guard_chosen));
  if (!report.fallback.empty()) absl::StrAppend(&text, "  fallback: ", report.fallback, "\n");
  for (const auto& tensor : report.tensors) {
    if (!tensor.fallback.empty()) {
      absl::StrAppend(&text, "  ", tensor.name, " stays plain: ", tensor.fallback, "\n");
    }
  }
  return verbose ? text + TensorsText(report) : text;
}

}  // namespace needle::cli
