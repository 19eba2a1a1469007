#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/input_text.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/text_table.h"
#include "converter/verify/eval.h"
#include "converter/verify/eval_data.h"

namespace needle::cli {
namespace {

struct EvalOptions {
  ModelOptions model;
  std::string data;
  std::optional<std::string> against, against_numerics;
  uint64_t limit = 0, max_new_tokens = 256, max_tokens = 0;
  bool no_generate = false;
  bool json = false, quiet = false;
};

std::string Label(const std::string& path, engine::Numerics numerics) {
  return absl::StrCat(path, " (", std::string(engine::NumericsName(numerics)), ")");
}

base::Json DivergenceJson(const std::optional<verify::Divergence>& divergence) {
  if (!divergence) return nullptr;
  return {{"positions", divergence->positions},
          {"kl_mean", divergence->kl_mean},
          {"kl_median", divergence->kl_median},
          {"kl_p95", divergence->kl_p95},
          {"kl_p99", divergence->kl_p99},
          {"kl_max", divergence->kl_max},
          {"top1", divergence->top1}};
}

base::Json RunJson(const verify::RunResult& run) {
  return {{"label", run.label},
          {"numerics", std::string(engine::NumericsName(run.numerics))},
          {"examples", run.calls.examples},
          {"exact", run.calls.exact},
          {"unparsable", run.calls.unparsable},
          {"over_calling", run.calls.over_calling},
          {"under_calling", run.calls.under_calling},
          {"new_tokens", run.calls.new_tokens},
          {"positions", run.positions},
          {"perplexity", run.perplexity},
          {"divergence", DivergenceJson(run.divergence)},
          {"sequences_exact", run.divergence ? base::Json(run.sequences_exact) : base::Json()}};
}

base::Json ReportJson(const EvalOptions& options, const verify::EvalReport& report) {
  base::Json runs = base::Json::array(), changed = base::Json::array();
  for (const verify::RunResult& run : report.runs) runs.push_back(RunJson(run));
  for (const verify::ChangedAnswer& answer : report.changed) {
    changed.push_back({{"line", answer.line},
                       {"query", answer.query},
                       {"wanted", answer.wanted},
                       {"answers", answer.answers},
                       {"exact", answer.exact}});
  }
  return {{"data", options.data},
          {"examples", report.examples},
          {"too_long", report.too_long},
          {"runs", runs},
          {"changed", changed}};
}

std::string RunsText(const verify::EvalReport& report, bool generated) {
  std::vector<std::string> headings = {"model"};
  if (generated)
    headings.insert(headings.end(), {">exact calls", ">unparsable", ">over", ">under"});
  headings.insert(headings.end(),
                  {">perplexity", ">mean KL", ">99 % KL", ">top-1", ">same answer"});
  TextTable table(headings);
  for (const verify::RunResult& run : report.runs) {
    std::vector<std::string> cells = {run.label};
    if (generated) {
      cells.push_back(absl::StrFormat("%d of %d", run.calls.exact, run.calls.examples));
      for (const uint64_t count :
           {run.calls.unparsable, run.calls.over_calling, run.calls.under_calling}) {
        cells.push_back(absl::StrCat(count));
      }
    }
    cells.push_back(absl::StrFormat("%.4f", run.perplexity));
    if (run.divergence) {
      cells.push_back(ErrorText(run.divergence->kl_mean));
      cells.push_back(ErrorText(run.divergence->kl_p99));
      cells.push_back(absl::StrFormat("%.2f %%", run.divergence->top1 * 100));
      cells.push_back(absl::StrFormat("%.1f %%", run.sequences_exact * 100));
    } else {
      cells.insert(cells.end(), 4, "-");
    }
    table.AddRow(std::move(cells));
  }
  return table.Text();
}

std::string ChangedText(const verify::EvalReport& report) {
  std::string text;
  for (const verify::ChangedAnswer& answer : report.changed) {
    absl::StrAppendFormat(&text, "\nline %d: %s\n  wanted: %s\n", answer.line, answer.query,
                          answer.wanted);
    for (size_t i = 0; i < report.runs.size(); ++i) {
      absl::StrAppendFormat(&text, "  %s %s: %s\n", answer.exact[i] ? "exact" : "WRONG",
                            report.runs[i].label, answer.answers[i]);
    }
  }
  return text;
}

absl::StatusOr<verify::EvalReport> Evaluate(const EvalOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadInput(options.data));
  ASSIGN_OR_RETURN(const auto examples, verify::ParseExamples(text, options.data, options.limit));
  ASSIGN_OR_RETURN(const engine::Model model, LoadModel(options.model, 1));
  ASSIGN_OR_RETURN(const auto tokenizer, engine::Tokenizer::FromSource(model.source()));
  std::vector<verify::EvalRun> runs;
  std::optional<engine::Model> reference;
  if (options.against) {
    ModelOptions against{.path = *options.against, .numerics = options.against_numerics};
    if (!IsArchivePath(against.path)) against.checkpoint = options.model.checkpoint;
    ASSIGN_OR_RETURN(reference, LoadModel(against, 1));
    runs.push_back({Label(against.path, reference->numerics()), &*reference});
  }
  runs.push_back({Label(options.model.path, model.numerics()), &model});
  Progress progress("examples", !options.quiet);
  verify::EvalOptions eval;
  eval.generate = !options.no_generate;
  eval.max_new_tokens = options.max_new_tokens;
  eval.max_tokens = options.max_tokens;
  eval.threads = options.model.threads;
  eval.progress = [&](size_t done, size_t total) {
    progress.Update(done, total);
    return true;
  };
  return verify::Evaluate(runs, tokenizer, examples, eval);
}

absl::StatusOr<ExitCode> RunEval(const EvalOptions& options, Session& session) {
  session.messages.set_quiet(options.quiet);
  ASSIGN_OR_RETURN(const verify::EvalReport report, Evaluate(options));
  if (!report.too_long.empty()) {
    session.messages.Warning(absl::StrCat(report.too_long.size(),
                                          " examples are too long for the model and were not run; "
                                          "the first is on line ",
                                          report.too_long.front()));
  }
  if (options.json) {
    session.out.WriteJson(ReportJson(options, report));
  } else {
    session.out.Write(absl::StrFormat("%d examples of %s\n", report.examples, options.data));
    session.out.Write(RunsText(report, !options.no_generate) + ChangedText(report));
  }
  return ExitCode::kDone;
}

void AddEvalOptions(Command& command, EvalOptions* options) {
  AddModelOptions(command, &options->model);
  command.Add(
      {.names = "--data",
       .value = "FILE",
       .help = "examples as JSON Lines: {query, tools, answers[, system, reasoning]} or chat "
               "messages; - reads standard input",
       .required = true},
      &options->data);
  command.Add({.names = "--against",
               .value = "FILE",
               .help = "a model to compare with: the checkpoint, or another archive"},
              &options->against);
  command.Add({.names = "--against-numerics",
               .value = "float|a8|kernel",
               .help = "how to compute that one"},
              &options->against_numerics);
  command.Add({.names = "--limit",
               .value = "N",
               .help = "only the first N examples (default all)",
               .min = 1},
              &options->limit);
  command.Add({.names = "--max-new-tokens",
               .value = "N",
               .help = "length limit of an answer (default 256)",
               .min = 1},
              &options->max_new_tokens);
  command.Add({.names = "--max-tokens",
               .value = "N",
               .help = "cut teacher-forced examples there (default: what the model holds)",
               .min = 1},
              &options->max_tokens);
  command.Add({.names = "--no-generate",
               .help = "no greedy answers: only perplexity, KL divergence and agreement"},
              &options->no_generate);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
  command.Need("--against-numerics", "--against");
}

}  // namespace

void AddEval(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "eval",
      .heading = kProveHeading,
      .summary = "how well a model calls tools",
      .description =
          "Answers every example greedily and counts exact calls (names and arguments, in order), "
          "unreadable answers, and too many or too few calls; measures perplexity over the wanted "
          "answers. With --against a second model runs too: KL divergence, agreement, and every "
          "example whose answers differ.",
      .examples = {{"eval model.cact --data held.jsonl", "accuracy"},
                   {"eval model.cact --data held.jsonl --against model.safetensors",
                    "what quantisation changed"}},
  });
  auto options = std::make_shared<EvalOptions>();
  AddEvalOptions(command, options.get());
  command.OnRun([options](Session& session) { return RunEval(*options, session); });
}

}  // namespace needle::cli
