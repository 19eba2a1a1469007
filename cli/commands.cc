#include "cli/commands.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace needle::cli {

void AddAllCommands(CommandSet& commands) {
  AddBuild(commands);
  AddRequantize(commands);
  AddSlice(commands);
  AddLadder(commands);
  AddSynth(commands);
  AddInspect(commands);
  AddDiff(commands);
  AddDump(commands);
  AddManifest(commands);
  AddCodebook(commands);
  AddRun(commands);
  AddVerify(commands);
  AddEval(commands);
  AddReport(commands);
  AddHeads(commands);
  AddGolden(commands);
  AddCompletion(commands);
  AddManPage(commands);
}

void AddJsonOption(Command& command, bool* json) {
  command.Add({.names = "--json", .help = "print the result as JSON"}, json);
}

void AddQuietOption(Command& command, bool* quiet) {
  command.Add({.names = "-q,--quiet", .help = "print errors only"}, quiet);
}

void AddOutputOption(Command& command, std::string* output) {
  command.Add({.names = "-o,--output",
               .value = "FILE",
               .help = "the archive to write",
               .use = FileUse::kWrites,
               .required = true},
              output);
}

void AddThreadsOption(Command& command, uint64_t* threads) {
  command.Add({.names = "--threads",
               .value = "N",
               .help = "0 for one per processor (default 0); never changes the result",
               .max = 1024},
              threads);
}

void AddStrictOption(Command& command, bool* strict) {
  command.Add({.names = "--strict",
               .help = "unknown leaves are errors, and warnings make the exit status 5"},
              strict);
}

void AddSourceOptions(Command& command, SourceOptions* options) {
  command.Add({.names = "--codebook",
               .value = "reference|analytic",
               .help = "the numbers that archives in the field carry, or the exact ones (default "
                       "reference)"},
              &options->codebook);
  command.Add({.names = "--tokenizer",
               .value = "FILE",
               .help = "a SentencePiece .model, or a .cact whose tokenizer is copied (default: "
                       "tokenizer.model beside the checkpoint, if there is one)"},
              &options->tokenizer);
  command.Add({.names = "--no-tokenizer", .help = "write no tokenizer"}, &options->no_tokenizer);
  command.Add({.names = "--lora",
               .value = "FILE",
               .help = "merge a LoRA adapter, several in the order given"},
              &options->adapters);
  command.Add({.names = "--keep-confidence",
               .help = "keep the confidence head, which was not trained with the adapter"},
              &options->keep_confidence);
  command.Add({.names = "--rebalance",
               .help = "make the channels of attention inputs alike first; the float function "
                       "stays, outliers no longer spoil 2 bits"},
              &options->rebalance);
  AddStrictOption(command, &options->strict);
  command.Exclude("--tokenizer", "--no-tokenizer");
  command.Need("--keep-confidence", "--lora");
}

converter::PlanOptions PlanOptionsOf(const SourceOptions& options, quant::BitMap bit_map) {
  converter::PlanOptions plan;
  plan.bit_map = std::move(bit_map);
  plan.adapters = options.adapters;
  plan.keep_confidence = options.keep_confidence;
  plan.rebalance = options.rebalance;
  plan.tokenizer = options.no_tokenizer ? "" : options.tokenizer;
  plan.strict = options.strict;
  return plan;
}

quant::CodebookKind CodebookKindOf(const SourceOptions& options) {
  return options.codebook == "analytic" ? quant::CodebookKind::kAnalytic
                                        : quant::CodebookKind::kReference;
}

converter::ProgressCallback BuildProgressTo(Progress& progress) {
  return [&progress](const converter::BuildProgress& state) {
    progress.Update(state.tensors_done, state.num_tensors, state.values_done * sizeof(float),
                    state.num_values * sizeof(float));
    return true;
  };
}

void AddWidthOptions(Command& command, std::optional<std::string>* bits,
                     std::optional<std::string>* bits_map) {
  command.Add({.names = "--bits",
               .value = "1|1.58|2|3|4",
               .help = "one width for every matrix: binary, ternary, or 2 to 4 bits"},
              bits);
  command.Add({.names = "--bits-map",
               .value = "MAP",
               .help = "widths by name, NAME=W,...,default=W (default " +
                       std::string(quant::kShippedScheme) + ")"},
              bits_map);
  command.Exclude("--bits", "--bits-map");
}

absl::StatusOr<quant::BitMap> BitMapFromOptions(const std::optional<std::string>& bits,
                                                const std::optional<std::string>& bits_map) {
  if (bits_map) return quant::BitMap::Parse(*bits_map);
  if (bits) return quant::BitMap::Parse(absl::StrCat("default=", *bits));
  return quant::BitMap::Parse(quant::kShippedScheme);
}

ExitCode WarningsCode(bool strict, const std::vector<std::string>& warnings) {
  return strict && !warnings.empty() ? ExitCode::kWarnings : ExitCode::kDone;
}

bool IsArchivePath(const std::string& path) { return path.ends_with(".cact"); }

}  // namespace needle::cli
