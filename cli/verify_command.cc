#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/input_text.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/verification.h"
#include "converter/manifest_check.h"
#include "converter/verify/eval.h"
#include "converter/verify/golden_file.h"
#include "engine/archive_weights.h"

namespace needle::cli {
namespace {

struct VerifyOptions {
  std::optional<std::string> archive, manifest, against, golden, data, text;
  std::string numerics = "kernel", rounding = "auto";
  CheckpointOptions checkpoint = {};
  bool no_forward = false;
  verify::TensorLimits tensor_limits;
  verify::ForwardLimits forward_limits;
  uint64_t threads = 0;
  bool strict = false, json = false, quiet = false, verbose = false;
};

verify::TensorsOptions TensorsOptionsOf(const VerifyOptions& options, Progress& progress) {
  verify::TensorsOptions tensors;
  tensors.limits = options.tensor_limits;
  tensors.limits.rounding = options.rounding == "plain" ? verify::Rounding::kPlain
                            : options.rounding == "any" ? verify::Rounding::kAny
                                                        : verify::Rounding::kAuto;
  tensors.threads = options.threads;
  tensors.progress = [&progress](uint64_t done, uint64_t total) {
    progress.Update(done, total);
    return true;
  };
  return tensors;
}

// The texts to run; none: the built-in one.
absl::StatusOr<std::vector<std::vector<uint32_t>>> Sequences(const VerifyOptions& options) {
  std::vector<std::vector<uint32_t>> sequences;
  if (!options.data && !options.text) return sequences;
  ASSIGN_OR_RETURN(const auto weights, engine::ArchiveWeights::Open(*options.archive));
  ASSIGN_OR_RETURN(const auto tokenizer, engine::Tokenizer::FromSource(*weights));
  if (options.text) {
    ASSIGN_OR_RETURN(const std::string text, *options.text == "-" ? ReadInput("-") : *options.text);
    sequences.push_back({tokenizer.table().bos_id});
    const std::vector<uint32_t> ids = tokenizer.Encode(text);
    sequences.back().insert(sequences.back().end(), ids.begin(), ids.end());
    return sequences;
  }
  ASSIGN_OR_RETURN(const std::string text, ReadInput(*options.data));
  ASSIGN_OR_RETURN(const auto examples, verify::ParseExamples(text, *options.data));
  for (const verify::EvalExample& example : examples) {
    sequences.push_back(verify::EncodeTaught(tokenizer, example).tokens);
  }
  return sequences;
}

absl::Status CompareTensors(const VerifyOptions& options, const format::Archive& archive,
                            const std::shared_ptr<const converter::TensorPlan>& plan,
                            Verification& verification) {
  Progress progress("values", !options.quiet);
  const verify::TensorsOptions tensors = TensorsOptionsOf(options, progress);
  if (plan) {
    ASSIGN_OR_RETURN(verification.tensors.emplace_back(),
                     verify::VerifyAgainstPlan(archive, *plan, tensors));
  }
  if (options.golden) {
    ASSIGN_OR_RETURN(const auto golden, verify::OpenGolden(*options.golden));
    ASSIGN_OR_RETURN(verification.tensors.emplace_back(),
                     verify::VerifyGolden(archive, *golden, tensors));
  }
  return absl::OkStatus();
}

absl::Status CompareForward(const VerifyOptions& options,
                            std::shared_ptr<const converter::TensorPlan> plan,
                            Verification& verification) {
  Progress progress("texts", !options.quiet);
  verify::ForwardOptions forward;
  forward.limits = options.forward_limits;
  forward.threads = options.threads;
  forward.progress = [&progress](size_t done, size_t total) {
    progress.Update(done, total);
    return true;
  };
  ASSIGN_OR_RETURN(auto sequences, Sequences(options));
  ASSIGN_OR_RETURN(verification.forward, RunForward(*options.archive, std::move(plan),
                                                    NumericsOf(*options.archive, options.numerics),
                                                    std::move(sequences), forward));
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> CheckManifest(const VerifyOptions& options, Session& session) {
  ASSIGN_OR_RETURN(const converter::ManifestCheck check,
                   converter::VerifyManifest(*options.manifest));
  const bool passed = check.differences.empty();
  const std::vector<std::string> listed = FirstTen(check.differences, check.differences.size());
  if (options.json) {
    session.out.WriteJson({{"manifest", *options.manifest},
                           {"passed", passed},
                           {"archives", check.archives},
                           {"tensors", check.tensors},
                           {"inputs", check.inputs},
                           {"inputs_missing", check.inputs_missing},
                           {"differences", check.differences},
                           {"unlisted", check.unlisted}});
  } else if (!options.quiet) {
    session.out.Write(absl::StrFormat(
        "%s: %s, %d archives and %d tensors compared, %d inputs (%d are not beside it)\n",
        *options.manifest, passed ? "verified" : "NOT verified", check.archives, check.tensors,
        check.inputs, check.inputs_missing));
    for (const std::string& line : listed) session.out.Write("  " + line + "\n");
  } else {
    for (const std::string& line : listed) session.messages.Error(line);
  }
  for (const std::string& path : check.unlisted) {
    session.messages.Warning(absl::StrCat(path, ": the manifest does not list it"));
  }
  return passed ? WarningsCode(options.strict, check.unlisted) : ExitCode::kVerificationDiffers;
}

absl::StatusOr<ExitCode> RunVerify(const VerifyOptions& options, Session& session) {
  session.messages.set_quiet(options.quiet);
  if (options.manifest) return CheckManifest(options, session);
  if (!options.archive) return absl::InvalidArgumentError("archive is missing (or --manifest)");
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(*options.archive));
  Verification verification;
  verification.structure = verify::VerifyStructure(archive, {.threads = options.threads});
  std::shared_ptr<const converter::TensorPlan> plan;
  if (options.against) {
    ASSIGN_OR_RETURN(plan, PlanCheckpoint(*options.against, options.checkpoint));
  }
  RETURN_IF_ERROR(CompareTensors(options, archive, plan, verification));
  // Models of other shapes cannot be run side by side; the tensors' report says how they differ.
  const bool same_shape = plan && plan->geometry() == archive.geometry();
  if (same_shape && !options.no_forward) {
    RETURN_IF_ERROR(CompareForward(options, plan, verification));
  }
  if (options.json) {
    base::Json json = {{"archive", archive.path()}};
    json.update(VerificationJson(verification));
    session.out.WriteJson(json);
  } else if (!options.quiet) {
    session.out.Write(absl::StrCat(archive.path(), ": ",
                                   verification.passed() ? "verified" : "NOT verified", "\n",
                                   VerificationText(verification, options.verbose)));
  } else {
    TellFailures(verification, session.messages);
  }
  return verification.passed() ? ExitCode::kDone : ExitCode::kVerificationDiffers;
}

void AddLimits(Command& command, VerifyOptions* options) {
  command.Add({.names = "--rounding",
               .value = "auto|plain|any",
               .help = "hold matrices to plain rounding bit for bit: where their groups say so "
                       "(default), all, or none"},
              &options->rounding);
  command.Add(
      {.names = "--max-tensor-ratio",
       .value = "X",
       .help = "limit of a matrix's error, as a multiple of theory (default 4, or more when the "
               "matrix follows the weights as calibrated ones do)"},
      &options->tensor_limits.max_tensor_ratio);
  command.Add({.names = "--max-group-nmse",
               .value = "X",
               .help = "limit of a group's error over its square (default 2, or 20 times the "
                       "matrix's up to 64)"},
              &options->tensor_limits.max_group_nmse);
  command.Add({.names = "--golden-tolerance",
               .value = "X",
               .help = "of golden values, relative to the group's largest (default what f32 "
                       "arithmetic in any order allows)"},
              &options->tensor_limits.golden_tolerance);
  command.Add({.names = "--max-mean-kl",
               .value = "X",
               .help = "limit of the mean KL divergence in nats (default 0.5)"},
              &options->forward_limits.max_mean_kl);
  command.Add({.names = "--max-kl",
               .value = "X",
               .help = "limit of a position's KL divergence (default none)"},
              &options->forward_limits.max_kl);
  command.Add({.names = "--min-top1",
               .value = "X",
               .help = "least share of positions with the same likeliest token (default 0)",
               .most = 1},
              &options->forward_limits.min_top1);
}

void AddVerifyOptions(Command& command, VerifyOptions* options) {
  command.Add({.names = "archive", .value = "FILE", .help = "the archive"}, &options->archive);
  command.Add({.names = "--manifest",
               .value = "FILE",
               .help = "check the archives beside a manifest instead"},
              &options->manifest);
  command.Add({.names = "--strict",
               .help = "archives beside the manifest that it does not list make the exit status 5"},
              &options->strict);
  command.Add({.names = "--against",
               .value = "FILE",
               .help = "the checkpoint that it was built from: every tensor, then behaviour"},
              &options->against);
  command.Add({.names = "--golden",
               .value = "FILE",
               .help = "decoded tensors to match: .npz, .safetensors or another .cact"},
              &options->golden);
  command.Add({.names = "--no-forward", .help = "compare tensors only, run nothing"},
              &options->no_forward);
  command.Add({.names = "--data",
               .value = "FILE",
               .help = "run these examples (JSON Lines as for eval) instead of a built-in text; - "
                       "reads standard input"},
              &options->data);
  command.Add(
      {.names = "--text", .value = "TEXT", .help = "run this text instead; - reads standard input"},
      &options->text);
  command.Add({.names = "--numerics",
               .value = "float|a8|kernel",
               .help = "of the archive; the checkpoint runs in float (default kernel)"},
              &options->numerics);
  AddCheckpointOptions(command, &options->checkpoint);
  AddLimits(command, options);
  AddThreadsOption(command, &options->threads);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
  command.Add({.names = "-v,--verbose", .help = "print every tensor"}, &options->verbose);
  command.Exclude("archive", "--manifest");
  command.Need("--strict", "--manifest");
  command.Exclude("--data", "--text");
  for (const char* option : {"--no-forward", "--data", "--text", "--layers", "--tokenizer",
                             "--lora", "--rebalance", "--rounding", "--max-tensor-ratio",
                             "--max-group-nmse", "--max-mean-kl", "--max-kl", "--min-top1"}) {
    command.Need(option, "--against");
  }
  for (const char* option : {"--max-mean-kl", "--max-kl", "--min-top1", "--data", "--text"})
    command.Exclude(option, "--no-forward");
  command.Need("--golden-tolerance", "--golden");
}

}  // namespace

void AddVerify(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "verify",
      .heading = kProveHeading,
      .summary = "prove an archive: structure, every tensor, behaviour",
      .description =
          "Checks an archive's structure; with --against every tensor against the checkpoint and "
          "what the model says against what the checkpoint says; with --golden every tensor "
          "against "
          "decoded ones. Says how much was compared. Exits with 4 when anything differs beyond its "
          "limit.",
      .examples = {{"verify model.cact", "structure"},
                   {"verify model.cact --against model.safetensors", "everything"},
                   {"verify small.cact --against model.safetensors --layers 8", "a slice"},
                   {"verify model.cact --golden golden.npz", "decoded tensors"},
                   {"verify --manifest dist/manifest.json", "a folder of archives"}},
  });
  auto options = std::make_shared<VerifyOptions>();
  AddVerifyOptions(command, options.get());
  command.OnRun([options](Session& session) { return RunVerify(*options, session); });
}

}  // namespace needle::cli
