#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "converter/report/collect.h"
#include "converter/report/report_html.h"
#include "converter/report/report_json.h"
#include "converter/verify/eval_data.h"

namespace needle::cli {
namespace {

struct ReportOptions {
  std::string archive;
  std::optional<std::string> against, data, output;
  CheckpointOptions checkpoint;
  uint64_t limit = 0, examples = 50, max_new_tokens = 256, max_tokens = 0, threads = 0;
  bool json = false, quiet = false;
};

absl::StatusOr<report::ReportInputs> OpenInputs(ReportOptions& options) {
  report::ReportInputs inputs;
  ASSIGN_OR_RETURN(inputs.archive, engine::ArchiveWeights::Open(options.archive));
  if (options.against) {
    options.checkpoint.layers = inputs.archive->geometry().num_layers;
    ASSIGN_OR_RETURN(inputs.against, PlanCheckpoint(*options.against, options.checkpoint));
  }
  if (options.data) {
    inputs.data = *options.data;
    ASSIGN_OR_RETURN(inputs.examples, verify::ReadExamples(*options.data, options.limit));
  }
  return inputs;
}

absl::Status CheckOutput(const ReportOptions& options, const report::ReportInputs& inputs) {
  if (!options.output) return absl::OkStatus();
  std::vector<std::string> files = {options.archive};
  if (options.data) files.push_back(*options.data);
  if (inputs.against) {
    for (std::string& file : inputs.against->files()) files.push_back(std::move(file));
  }
  return base::AtomicFile::CheckTarget(*options.output, files);
}

absl::StatusOr<report::ReportData> Collect(const ReportOptions& options,
                                           const report::ReportInputs& inputs) {
  Progress tensors("values", !options.quiet);
  Progress examples("examples", !options.quiet);
  report::ReportOptions collect{.max_changes = options.examples,
                                .max_new_tokens = options.max_new_tokens,
                                .max_tokens = options.max_tokens,
                                .threads = options.threads,
                                .progress = {}};
  collect.progress = [&](std::string_view phase, uint64_t done, uint64_t total) {
    Progress& progress = phase == "tensors" ? tensors : examples;
    progress.Update(done, total);
    if (done == total) progress.Finish();
    return true;
  };
  return report::CollectReport(inputs, collect);
}

std::string SummaryLine(const report::ReportData& data) {
  std::string line = absl::StrFormat("%s: %d bytes, %.3f bits a weight", data.summary.archive,
                                     data.summary.file_bytes, data.summary.bits_per_weight);
  if (!data.runs.empty()) {
    const report::RunRow& device = data.runs[data.device_run];
    absl::StrAppendFormat(&line, "; %d of %d calls exact (%s: %d), mean KL %.4g",
                          device.calls.exact, device.calls.examples, data.runs[0].label,
                          data.runs[0].calls.exact, device.divergence->kl_mean);
  }
  return line + "\n";
}

absl::StatusOr<ExitCode> RunReport(ReportOptions& options, Session& session) {
  if (!options.output && !options.json) {
    return absl::InvalidArgumentError("--output is missing (or --json)");
  }
  ASSIGN_OR_RETURN(const report::ReportInputs inputs, OpenInputs(options));
  RETURN_IF_ERROR(CheckOutput(options, inputs));
  ASSIGN_OR_RETURN(const report::ReportData data, Collect(options, inputs));
  if (options.output) RETURN_IF_ERROR(report::WriteReportHtml(data, *options.output));
  if (options.json) {
    session.out.WriteJson(report::ReportJson(data));
  } else if (!options.quiet) {
    session.out.Write(SummaryLine(data));
  }
  if (data.failures == 0) return ExitCode::kDone;
  for (const std::string& text : data.failure_texts) session.messages.Error(text);
  return ExitCode::kVerificationDiffers;
}

void AddReportOptions(Command& command, ReportOptions* options) {
  command.Add({.names = "archive", .value = "FILE", .help = "an archive", .required = true},
              &options->archive);
  command.Add(
      {.names = "--against",
       .value = "FILE",
       .help = "the checkpoint it was made from: errors, and what answers are compared with "
               "(default: the archive in float numerics)"},
      &options->against);
  command.Add({.names = "--lora",
               .value = "FILE",
               .help = "an adapter that the archive has merged, several in the order given"},
              &options->checkpoint.adapters);
  command.Add({.names = "--keep-confidence",
               .help = "the archive keeps the confidence head although an adapter is merged"},
              &options->checkpoint.keep_confidence);
  command.Add({.names = "--rebalance", .help = "the archive was built with --rebalance"},
              &options->checkpoint.rebalance);
  command.Add({.names = "--data",
               .value = "FILE",
               .help = "examples as JSON Lines, as for eval: adds accuracy, divergence and the "
                       "answers that changed"},
              &options->data);
  command.Add({.names = "-o,--output",
               .value = "FILE",
               .help = "the .html file to write",
               .use = FileUse::kWrites},
              &options->output);
  command.Add({.names = "--limit",
               .value = "N",
               .help = "only the first N examples (default all)",
               .min = 1},
              &options->limit);
  command.Add({.names = "--examples",
               .value = "N",
               .help = "list at most N answers that changed (default 50)"},
              &options->examples);
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
  AddThreadsOption(command, &options->threads);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
  command.Need("--lora", "--against");
  command.Need("--keep-confidence", "--lora");
  command.Need("--rebalance", "--against");
  command.Need("--limit", "--data");
  command.Need("--examples", "--data");
}

}  // namespace

void AddReport(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "report",
      .heading = kProveHeading,
      .summary = "all about an archive on one HTML page",
      .description =
          "Writes one HTML file that needs nothing else: sizes, the error of every tensor against "
          "theory, how indices and norms are spread, accuracy and divergence in all numerics, and "
          "the answers that changed. With --json the same numbers go to standard output. The exit "
          "status is 4 when a tensor does not hold what the checkpoint says.",
      .examples =
          {{"report tuned.cact --against tuned.safetensors --data held.jsonl -o report.html",
            "everything"},
           {"report tuned.cact -o report.html", "sizes, indices and norms"}},
  });
  auto options = std::make_shared<ReportOptions>();
  AddReportOptions(command, options.get());
  command.OnRun([options](Session& session) { return RunReport(*options, session); });
}

}  // namespace needle::cli
