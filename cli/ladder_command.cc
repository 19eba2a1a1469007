#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/new_folder.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/progress.h"
#include "cli/report_text.h"
#include "cli/text_table.h"
#include "converter/checkpoint.h"
#include "converter/ladder.h"
#include "converter/manifest.h"
#include "converter/manifest_check.h"

namespace needle::cli {
namespace {

struct LadderOptions {
  std::string checkpoint, depths, out_dir;
  std::optional<std::string> bits, bits_map;
  SourceOptions source;
  uint64_t threads = 0;
  bool json = false, quiet = false;
};

// "2-20", "2,4,8", "2-6,20".
absl::StatusOr<std::vector<uint32_t>> ParseDepths(const std::string& text) {
  std::vector<uint32_t> depths;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::vector<std::string> ends = absl::StrSplit(part, '-');
    uint32_t first = 0, last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first > last || last > format::kMaxLayers) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--depths: '", part, "', want a depth or FIRST-LAST, at most ", format::kMaxLayers));
    }
    for (uint32_t depth = first; depth <= last; ++depth) depths.push_back(depth);
  }
  return depths;
}

std::string InFolder(const LadderOptions& options, const std::string& name) {
  return (std::filesystem::path(options.out_dir) / name).string();
}

std::string ManifestPath(const LadderOptions& options) {
  return InFolder(options, "manifest.json");
}
std::string SumsPath(const LadderOptions& options) { return InFolder(options, "SHA256SUMS"); }

absl::StatusOr<std::vector<converter::LadderTarget>> Targets(const LadderOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> depths, ParseDepths(options.depths));
  const std::string stem = std::filesystem::path(options.checkpoint).stem().string();
  std::vector<converter::LadderTarget> targets;
  for (const uint32_t depth : depths) {
    targets.push_back(
        {depth, InFolder(options, absl::StrFormat("%s.layers%02d.cact", stem, depth))});
  }
  return targets;
}

// The files that the archives are made of, apart from what stands beside the checkpoint.
std::vector<std::string> Inputs(const LadderOptions& options) {
  std::vector<std::string> inputs = {options.checkpoint};
  inputs.insert(inputs.end(), options.source.adapters.begin(), options.source.adapters.end());
  return inputs;
}

// Before any work; BuildLadder looks at the archives again.
absl::Status CheckOutputs(const LadderOptions& options, const converter::Checkpoint& checkpoint,
                          const std::vector<converter::LadderTarget>& targets) {
  std::vector<std::string> inputs = Inputs(options), outputs;
  for (const std::string& file : checkpoint.files()) inputs.push_back(file);
  if (options.source.tokenizer) inputs.push_back(*options.source.tokenizer);
  for (const converter::LadderTarget& target : targets) outputs.push_back(target.path);
  for (const std::string& path : {ManifestPath(options), SumsPath(options)})
    outputs.push_back(path);
  for (const std::string& path : Inputs(options))
    RETURN_IF_ERROR(converter::CheckManifestName(path));
  for (const std::string& path : outputs) RETURN_IF_ERROR(converter::CheckManifestName(path));
  return base::AtomicFile::CheckTargets(outputs, inputs);
}

absl::StatusOr<converter::LadderReport> Build(
    const LadderOptions& options, const std::shared_ptr<const converter::Checkpoint>& checkpoint,
    const std::vector<converter::LadderTarget>& targets) {
  ASSIGN_OR_RETURN(quant::BitMap bit_map, BitMapFromOptions(options.bits, options.bits_map));
  const converter::PlanOptions plan = PlanOptionsOf(options.source, std::move(bit_map));
  Progress progress("tensors", !options.quiet);
  converter::BuildOptions build;
  build.codebook = CodebookKindOf(options.source);
  build.threads = options.threads;
  build.progress = BuildProgressTo(progress);
  return converter::BuildLadder(checkpoint, plan, targets, build);
}

// Archives in the folder that this ladder did not write, most likely an earlier one.
std::vector<std::string> StrangerWarnings(const std::string& manifest_path,
                                          const base::Json& manifest) {
  std::vector<std::string> warnings;
  for (const std::string& path : converter::UnlistedArchives(manifest_path, manifest)) {
    warnings.push_back(
        absl::StrCat(path, ": is not of this ladder, and the manifest does not list it"));
  }
  return warnings;
}

// manifest.json and SHA256SUMS beside the archives. Returns what to warn of.
absl::StatusOr<std::vector<std::string>> WriteProofs(const LadderOptions& options,
                                                     const converter::LadderReport& report) {
  converter::ManifestRequest request;
  request.tool_version = Version();
  ASSIGN_OR_RETURN(const quant::BitMap bit_map, BitMapFromOptions(options.bits, options.bits_map));
  request.options = {{"command", "ladder"},
                     {"depths", options.depths},
                     {"codebook", options.source.codebook},
                     {"rebalance", options.source.rebalance},
                     {"bits_map", bit_map.Text()}};
  request.inputs = Inputs(options);
  for (const converter::LadderRung& rung : report.rungs) {
    request.archives.push_back({rung.path, rung.tensors});
  }
  ASSIGN_OR_RETURN(const base::Json manifest, converter::MakeManifest(request));
  RETURN_IF_ERROR(converter::WriteManifest(manifest, ManifestPath(options)));
  RETURN_IF_ERROR(converter::WriteSums(manifest, SumsPath(options)));
  return StrangerWarnings(ManifestPath(options), manifest);
}

absl::StatusOr<ExitCode> RunLadder(const LadderOptions& options, Session& session) {
  session.messages.set_quiet(options.quiet);
  ASSIGN_OR_RETURN(const std::vector<converter::LadderTarget> targets, Targets(options));
  ASSIGN_OR_RETURN(const auto checkpoint, converter::Checkpoint::Open(options.checkpoint));
  ASSIGN_OR_RETURN(base::NewFolder folder, base::NewFolder::Make(options.out_dir));
  if (folder.made()) session.messages.Info("made the folder " + options.out_dir);
  RETURN_IF_ERROR(CheckOutputs(options, *checkpoint, targets));
  ASSIGN_OR_RETURN(converter::LadderReport report, Build(options, checkpoint, targets));
  ASSIGN_OR_RETURN(const std::vector<std::string> strangers, WriteProofs(options, report));
  folder.Keep();
  std::vector<std::string>& all_warnings = report.deepest.warnings;
  all_warnings.insert(all_warnings.end(), strangers.begin(), strangers.end());
  const base::Json warnings = TellWarnings(all_warnings, session.messages);
  base::Json rungs = base::Json::array();
  TextTable table({">layers", "archive", ">bytes", ">size"});
  for (const converter::LadderRung& rung : report.rungs) {
    rungs.push_back({{"layers", rung.depth}, {"output", rung.path}, {"bytes", rung.file_bytes}});
    table.AddRow({absl::StrCat(rung.depth), rung.path, absl::StrCat(rung.file_bytes),
                  BytesText(rung.file_bytes)});
  }
  if (options.json) {
    session.out.WriteJson({{"checkpoint", options.checkpoint},
                           {"manifest", ManifestPath(options)},
                           {"seconds", report.seconds},
                           {"rungs", rungs},
                           {"warnings", warnings}});
  } else if (!options.quiet) {
    session.out.Write(table.Text());
    session.out.Write(absl::StrFormat("time: %.2f s; %s and SHA256SUMS beside them\n",
                                      report.seconds, ManifestPath(options)));
  }
  return WarningsCode(options.source.strict, report.deepest.warnings);
}

void AddLadderOptions(Command& command, LadderOptions* options) {
  command.Add({.names = "checkpoint",
               .value = "FILE",
               .help = "the model: .safetensors (also in shards), .npz or .pkl",
               .required = true},
              &options->checkpoint);
  command.Add({.names = "--depths",
               .value = "LIST",
               .help = "depths and ranges of them, as in 2-20 or 4,8,12",
               .required = true},
              &options->depths);
  command.Add({.names = "--out-dir",
               .value = "DIR",
               .help = "the folder to write to; made when it does not exist",
               .required = true},
              &options->out_dir);
  AddWidthOptions(command, &options->bits, &options->bits_map);
  AddSourceOptions(command, &options->source);
  AddThreadsOption(command, &options->threads);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
}

}  // namespace

void AddLadder(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "ladder",
      .heading = kMakeHeading,
      .summary = "many depths of a checkpoint at once",
      .description =
          "Writes an archive for each depth, with one read of the checkpoint and one encoding of "
          "each tensor, and manifest.json and SHA256SUMS beside them. Each archive is "
          "byte-identical "
          "with a build at its depth.",
      .examples = {{"ladder model.safetensors --depths 2-20 --out-dir dist/", "every depth"}},
  });
  auto options = std::make_shared<LadderOptions>();
  AddLadderOptions(command, options.get());
  command.OnRun([options](Session& session) { return RunLadder(*options, session); });
}

}  // namespace needle::cli
