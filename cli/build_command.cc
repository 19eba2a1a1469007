#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "cli/calibration.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/report_text.h"
#include "cli/text_table.h"
#include "cli/verification.h"
#include "converter/build.h"
#include "converter/checkpoint.h"
#include "converter/tensor_plan.h"
#include "converter/verify/archive_summary.h"

namespace needle::cli {
namespace {

struct BuildOptions {
  std::string checkpoint;
  std::optional<std::string> output;
  std::optional<std::string> bits, bits_map;
  std::optional<uint64_t> layers;
  CalibrationOptions calibration;
  SourceOptions source;
  uint64_t threads = 0;
  bool dry_run = false, no_verify = false;
  bool json = false, quiet = false, verbose = false;
};

// Before work of minutes; Build looks again.
absl::Status CheckOutputs(const BuildOptions& options) {
  ASSIGN_OR_RETURN(const auto checkpoint, converter::Checkpoint::Open(options.checkpoint));
  std::vector<std::string> inputs = checkpoint->files();
  inputs.insert(inputs.end(), options.source.adapters.begin(), options.source.adapters.end());
  for (const auto& file : {options.source.tokenizer, options.calibration.data}) {
    if (file) inputs.push_back(*file);
  }
  std::vector<std::string> outputs = {*options.output};
  if (const auto& stats = options.calibration.stats) {
    std::error_code error;
    (std::filesystem::exists(*stats, error) ? inputs : outputs).push_back(*stats);
  }
  return base::AtomicFile::CheckTargets(outputs, inputs);
}

absl::StatusOr<CalibratedPlan> MakePlan(const BuildOptions& options) {
  if (options.calibration.asks_for_work() && !options.dry_run) {
    RETURN_IF_ERROR(CheckOutputs(options));
  }
  ASSIGN_OR_RETURN(quant::BitMap bit_map, BitMapFromOptions(options.bits, options.bits_map));
  CalibrationInput input{.checkpoint = options.checkpoint,
                         .plan = PlanOptionsOf(options.source, std::move(bit_map)),
                         .codebook = CodebookKindOf(options.source),
                         .threads = options.threads,
                         .show_progress = !options.quiet};
  input.plan.layers = static_cast<uint32_t>(options.layers.value_or(0));
  // Sizes do not depend on how indices are chosen.
  return PlanAndCalibrate(options.dry_run ? CalibrationOptions{} : options.calibration, input);
}

std::string TokenizerText(const converter::TensorPlan& plan) {
  return plan.tokenizer().empty() ? "none: the archive runs on token ids only"
                                  : plan.tokenizer_path();
}

base::Json RebalanceJson(const converter::TensorPlan& plan) {
  if (plan.balances().empty()) return {};
  const auto [least, largest] = converter::ScaleRange(plan.balances());
  return {{"layers", plan.balances().size()}, {"least_scale", least}, {"largest_scale", largest}};
}

std::string RebalanceText(const converter::TensorPlan& plan) {
  if (plan.balances().empty()) return "";
  const auto [least, largest] = converter::ScaleRange(plan.balances());
  return absl::StrFormat("rebalanced: attention inputs of %d layers, channels times %.3g to %.3g\n",
                         plan.balances().size(), least, largest);
}

// What is known before anything is written; a build adds to it.
base::Json PlanJson(const BuildOptions& options, const converter::TensorPlan& plan) {
  return {
      {"checkpoint", options.checkpoint},
      {"output", options.output ? base::Json(*options.output) : base::Json()},
      {"dry_run", options.dry_run},
      {"generation", format::GenerationName(plan.geometry().generation)},
      {"layers", plan.selection().layers},
      {"bytes", plan.layout().file_bytes},
      {"tokenizer", plan.tokenizer().empty() ? base::Json() : base::Json(plan.tokenizer_path())},
      {"rebalanced", RebalanceJson(plan)},
      {"header", HeaderJson(plan.layout().header)}};
}

std::string PlanLine(const std::string& name, const converter::TensorPlan& plan) {
  return absl::StrFormat("%s: %s, %d layers, %d tensors, %d bytes (%s)\n", name,
                         format::GenerationName(plan.geometry().generation),
                         plan.geometry().num_layers, plan.layout().records.size(),
                         plan.layout().file_bytes, BytesText(plan.layout().file_bytes));
}

absl::StatusOr<ExitCode> DryRun(const BuildOptions& options, const converter::TensorPlan& plan,
                                Session& session) {
  const auto kinds = verify::SummariseKinds(plan.schema(), plan.layout().records);
  base::Json json = PlanJson(options, plan);
  json["kinds"] = KindsJson(kinds);
  json["tensors"] = LayoutJson(plan.schema(), plan.layout().records);
  json["warnings"] = TellWarnings(plan.warnings(), session.messages);
  if (options.json) {
    session.out.WriteJson(json);
  } else {
    session.out.Write(PlanLine("dry run, nothing is written", plan));
    session.out.Write(absl::StrCat("tokenizer: ", TokenizerText(plan), "\n", RebalanceText(plan),
                                   "\n", KindsText(kinds), "\n",
                                   LayoutText(plan.schema(), plan.layout().records)));
  }
  return WarningsCode(options.source.strict, plan.warnings());
}

absl::StatusOr<converter::BuildReport> RunBuild(const BuildOptions& options,
                                                const CalibratedPlan& plan) {
  Progress progress("tensors", !options.quiet);
  converter::BuildOptions build;
  build.codebook = CodebookKindOf(options.source);
  build.threads = options.threads;
  build.encoder = plan.encoder();
  build.progress = BuildProgressTo(progress);
  return converter::Build(*plan.plan, *options.output, build);
}

// The finished file, read again and compared with the checkpoint.
absl::StatusOr<Verification> Verify(const BuildOptions& options,
                                    std::shared_ptr<const converter::TensorPlan> plan,
                                    const converter::TensorEncoder* encoder) {
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(*options.output));
  Verification verification;
  verification.structure = verify::VerifyStructure(archive, {.threads = options.threads});
  verify::TensorsOptions tensors;
  tensors.check_widths = true;
  tensors.locate_worst = false;  // reading and encoding once more is all that it costs
  tensors.limits.rounding = verify::Rounding::kPlain;
  tensors.encoder = encoder;
  tensors.threads = options.threads;
  ASSIGN_OR_RETURN(verification.tensors.emplace_back(),
                   verify::VerifyAgainstPlan(archive, *plan, tensors));
  verify::ForwardOptions forward;
  forward.threads = options.threads;
  ASSIGN_OR_RETURN(verification.forward, RunForward(*options.output, std::move(plan),
                                                    engine::Numerics::kKernel, {}, forward));
  return verification;
}

absl::StatusOr<ExitCode> RunBuild(const BuildOptions& options, Session& session) {
  session.messages.set_quiet(options.quiet);
  if (!options.output && !options.dry_run) {
    return absl::InvalidArgumentError("--output is missing (or --dry-run)");
  }
  ASSIGN_OR_RETURN(const CalibratedPlan calibrated, MakePlan(options));
  const auto& plan = calibrated.plan;
  if (options.dry_run) return DryRun(options, *plan, session);
  ASSIGN_OR_RETURN(converter::BuildReport report, RunBuild(options, calibrated));
  for (std::string& warning : CalibrationWarnings(calibrated)) {
    report.warnings.push_back(std::move(warning));
  }
  std::optional<Verification> verification;
  if (!options.no_verify) {
    ASSIGN_OR_RETURN(verification, Verify(options, plan, calibrated.encoder()));
  }
  const auto kinds = verify::SummariseBuild(report);
  base::Json json = PlanJson(options, *plan);
  json["seconds"] = report.seconds;
  json["calibration"] = CalibrationJson(calibrated);
  json["bit_search"] = BitSearchJson(calibrated);
  json["kinds"] = KindsJson(kinds);
  json["tensors"] = TensorReportsJson(report.tensors);
  json["warnings"] = TellWarnings(report.warnings, session.messages);
  json["verification"] = verification ? VerificationJson(*verification) : base::Json();
  if (options.json) {
    session.out.WriteJson(json);
  } else if (!options.quiet) {
    session.out.Write(PlanLine(report.path, *plan));
    session.out.Write(absl::StrFormat("tokenizer: %s\n%stime: %.2f s\n\n", TokenizerText(*plan),
                                      RebalanceText(*plan), report.seconds));
    session.out.Write(CalibrationText(calibrated, options.verbose));
    session.out.Write(KindsText(kinds));
    if (options.verbose) session.out.Write("\n" + TensorReportsText(report.tensors));
    if (verification) session.out.Write("\n" + VerificationText(*verification, options.verbose));
  } else if (verification) {
    TellFailures(*verification, session.messages);
  }
  if (verification && !verification->passed()) return ExitCode::kVerificationDiffers;
  return WarningsCode(options.source.strict, report.warnings);
}

void AddBuildOptions(Command& command, BuildOptions* options) {
  command.Add({.names = "checkpoint",
               .value = "FILE",
               .help = "the model: .safetensors (also in shards), .npz or .pkl",
               .required = true},
              &options->checkpoint);
  command.Add({.names = "-o,--output",
               .value = "FILE",
               .help = "the archive to write",
               .use = FileUse::kWrites},
              &options->output);
  AddWidthOptions(command, &options->bits, &options->bits_map);
  command.Add({.names = "--layers",
               .value = "N",
               .help = "keep the N blocks of that depth of the ladder (default: all)",
               .min = 1,
               .max = format::kMaxLayers},
              &options->layers);
  AddCalibrationOptions(command, &options->calibration);
  AddSourceOptions(command, &options->source);
  AddThreadsOption(command, &options->threads);
  command.Add(
      {.names = "--no-verify", .help = "do not compare the archive with the checkpoint afterwards"},
      &options->no_verify);
  command.Add({.names = "--dry-run", .help = "print the exact sizes and write nothing"},
              &options->dry_run);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
  command.Add({.names = "-v,--verbose", .help = "print every tensor"}, &options->verbose);
  command.Exclude("--quiet", "--verbose");
}

}  // namespace

void AddBuild(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "build",
      .heading = kMakeHeading,
      .summary = "an archive from a checkpoint (the default command)",
      .description =
          "Turns a full-precision checkpoint into an archive: every matrix quantised to its width, "
          "all else as 16-bit floats. The output appears complete or not at all. The same input "
          "gives the same bytes on every machine.",
      .examples = {{"model.safetensors -o model.cact", "the widths that the field ships"},
                   {"build model.safetensors --layers 8 -o small.cact", "eight blocks of it"},
                   {"build model.safetensors --bits-map embedding=4,mhc=4,default=3 -o m.cact",
                    "widths of your own"},
                   {"build model.safetensors --bits 3 --dry-run", "sizes only"},
                   {"build tuned.safetensors --bits 2 --calibrate train.jsonl -o tuned.cact",
                    "indices and norms chosen by what the activations say"},
                   {"build tuned.safetensors --target-size 700K --calibrate train.jsonl -o t.cact",
                    "widths searched, too"},
                   {"build base.safetensors --lora adapter.safetensors -o tuned.cact",
                    "with an adapter merged"}},
  });
  auto options = std::make_shared<BuildOptions>();
  AddBuildOptions(command, options.get());
  command.OnRun([options](Session& session) { return RunBuild(*options, session); });
}

}  // namespace needle::cli
