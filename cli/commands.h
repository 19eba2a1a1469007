// cli/commands.h: every command; each is defined in the file <name>_command.cc.
#ifndef NEEDLE_CLI_COMMANDS_H_
#define NEEDLE_CLI_COMMANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/command_line.h"
#include "cli/progress.h"
#include "converter/build_report.h"
#include "converter/tensor_plan.h"
#include "quant/bit_map.h"
#include "quant/codebook.h"

namespace needle::cli {

// The headings under which help lists the commands.
inline constexpr char kMakeHeading[] = "Make archives";
inline constexpr char kLookHeading[] = "Look inside";
inline constexpr char kProveHeading[] = "Run and prove";
inline constexpr char kShellHeading[] = "For the shell";

void AddBuild(CommandSet& commands);
void AddRequantize(CommandSet& commands);
void AddLadder(CommandSet& commands);
void AddManifest(CommandSet& commands);
void AddSynth(CommandSet& commands);
void AddInspect(CommandSet& commands);
void AddCodebook(CommandSet& commands);
void AddSlice(CommandSet& commands);
void AddRun(CommandSet& commands);
void AddVerify(CommandSet& commands);
void AddEval(CommandSet& commands);
void AddReport(CommandSet& commands);
void AddHeads(CommandSet& commands);
void AddGolden(CommandSet& commands);
void AddDiff(CommandSet& commands);
void AddDump(CommandSet& commands);
void AddCompletion(CommandSet& commands);
void AddManPage(CommandSet& commands);

// All of them, in the order of the help.
void AddAllCommands(CommandSet& commands);

// Options that mean the same in every command.
void AddJsonOption(Command& command, bool* json);
void AddQuietOption(Command& command, bool* quiet);
void AddOutputOption(Command& command, std::string* output);  // an archive, required

void AddThreadsOption(Command& command, uint64_t* threads);
void AddStrictOption(Command& command, bool* strict);
// How a checkpoint becomes an archive, apart from its widths.
struct SourceOptions {
  std::string codebook = "reference";
  std::optional<std::string> tokenizer;
  bool no_tokenizer = false;
  std::vector<std::string> adapters;
  bool keep_confidence = false;
  bool rebalance = false;
  bool strict = false;
};
void AddSourceOptions(Command& command, SourceOptions* options);
// Everything of a plan but its depth.
converter::PlanOptions PlanOptionsOf(const SourceOptions& options, quant::BitMap bit_map);
quant::CodebookKind CodebookKindOf(const SourceOptions& options);
// A callback that draws `progress`, which must outlive it.
converter::ProgressCallback BuildProgressTo(Progress& progress);
// --bits and --bits-map, which exclude each other.
void AddWidthOptions(Command& command, std::optional<std::string>* bits,
                     std::optional<std::string>* bits_map);
// What they mean; neither given: the shipped scheme.
absl::StatusOr<quant::BitMap> BitMapFromOptions(const std::optional<std::string>& bits,
                                                const std::optional<std::string>& bits_map);

// kWarnings when there are some and the user is strict.
ExitCode WarningsCode(bool strict, const std::vector<std::string>& warnings);

// Whether a command that takes archives and checkpoints is given an archive, by its ending.
bool IsArchivePath(const std::string& path);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_COMMANDS_H_
