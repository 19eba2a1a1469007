#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/report_text.h"
#include "cli/text_table.h"
#include "converter/checkpoint.h"
#include "converter/requantize.h"
#include "format/archive.h"

namespace needle::cli {
namespace {

struct RequantizeOptions {
  std::string archive, output;
  std::optional<std::string> bits, bits_map, from;
  std::vector<std::string> adapters;
  bool keep_confidence = false;
  uint64_t threads = 0;
  bool strict = false, json = false, quiet = false, verbose = false;
};

absl::StatusOr<converter::RequantizeReport> Requantize(const RequantizeOptions& options,
                                                       const format::Archive& archive) {
  converter::RequantizeOptions requantize;
  ASSIGN_OR_RETURN(requantize.bit_map, BitMapFromOptions(options.bits, options.bits_map));
  std::optional<converter::TensorPlan> plan;
  if (options.from) {
    ASSIGN_OR_RETURN(auto checkpoint, converter::Checkpoint::Open(*options.from));
    ASSIGN_OR_RETURN(plan, converter::PlanForArchive(std::move(checkpoint), archive,
                                                     options.adapters, options.keep_confidence));
    requantize.from = &*plan;
  }
  Progress progress("tensors", !options.quiet);
  requantize.threads = options.threads;
  requantize.progress = BuildProgressTo(progress);
  return converter::Requantize(archive, options.output, requantize);
}

base::Json ChangesJson(const std::vector<converter::WidthChange>& changes) {
  base::Json array = base::Json::array();
  for (const converter::WidthChange& change : changes) {
    array.push_back({{"name", change.name},
                     {"from", change.old_format},
                     {"to", std::string(format::WidthName(change.new_width))},
                     {"added_loss", change.added_loss}});
  }
  return array;
}

std::string ChangesText(const converter::RequantizeReport& report) {
  if (report.changes.empty()) return "no tensor changed its width\n";
  TextTable table({"tensor", "from", "to", ">added loss"});
  for (const converter::WidthChange& change : report.changes) {
    table.AddRow({change.name, change.old_format, std::string(format::WidthName(change.new_width)),
                  ErrorText(change.added_loss)});
  }
  return table.Text();
}

absl::StatusOr<ExitCode> RunRequantize(const RequantizeOptions& options, Session& session) {
  session.messages.set_quiet(options.quiet);
  if (!options.bits && !options.bits_map) {
    return absl::InvalidArgumentError("--bits or --bits-map is missing");
  }
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(options.archive));
  ASSIGN_OR_RETURN(const converter::RequantizeReport report, Requantize(options, archive));
  ASSIGN_OR_RETURN(const format::Archive made, format::Archive::Open(report.path));
  const auto kinds = verify::SummariseKinds(made.schema(), made.records());
  const base::Json warnings = TellWarnings(report.warnings, session.messages);
  if (options.json) {
    session.out.WriteJson({{"archive", archive.path()},
                           {"output", report.path},
                           {"from", options.from ? base::Json(*options.from) : base::Json()},
                           {"from_archive", report.from_archive},
                           {"bytes", report.file_bytes},
                           {"seconds", report.seconds},
                           {"kinds", KindsJson(kinds)},
                           {"changes", ChangesJson(report.changes)},
                           {"tensors", TensorReportsJson(report.tensors)},
                           {"warnings", warnings}});
  } else if (!options.quiet) {
    session.out.Write(ArchiveLine(made));
    session.out.Write(report.from_archive
                          ? "weights: the archive's own; the losses add to those it already had\n\n"
                          : absl::StrCat("weights: ", *options.from, "\n\n"));
    session.out.Write(absl::StrCat(KindsText(kinds), "\n", ChangesText(report)));
    if (options.verbose) session.out.Write("\n" + TensorReportsText(report.tensors));
  }
  return WarningsCode(options.strict, report.warnings);
}

}  // namespace

void AddRequantize(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "requantize",
      .heading = kMakeHeading,
      .summary = "an archive with other widths",
      .description =
          "Changes the widths of an archive's matrices. Tensors whose width stays are copied bit "
          "for "
          "bit. Weights come from the checkpoint with --from, otherwise from the archive itself; "
          "then the new loss adds to the one that is already there, and the report says how much.",
      .examples = {{"requantize model.cact --bits 3 -o model-cq3.cact", "all matrices 3-bit"},
                   {"requantize model.cact --bits-map embedding=4,default=2 --from "
                    "model.safetensors -o m.cact",
                    "from full precision"}},
  });
  auto options = std::make_shared<RequantizeOptions>();
  command.Add({.names = "archive", .value = "FILE", .help = "an archive", .required = true},
              &options->archive);
  AddOutputOption(command, &options->output);
  AddWidthOptions(command, &options->bits, &options->bits_map);
  command.Add({.names = "--from",
               .value = "FILE",
               .help = "the checkpoint that the archive was built from"},
              &options->from);
  command.Add({.names = "--lora",
               .value = "FILE",
               .help = "an adapter that the archive has, several in the order they were merged"},
              &options->adapters);
  command.Add({.names = "--keep-confidence",
               .help = "the archive kept its confidence head although an adapter was merged"},
              &options->keep_confidence);
  AddThreadsOption(command, &options->threads);
  command.Add({.names = "--strict", .help = "warnings make the exit status 5"}, &options->strict);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
  command.Add({.names = "-v,--verbose", .help = "print every tensor"}, &options->verbose);
  command.Need("--lora", "--from");
  command.Need("--keep-confidence", "--lora");
  command.Exclude("--quiet", "--verbose");
  command.OnRun([options](Session& session) { return RunRequantize(*options, session); });
}

}  // namespace needle::cli
