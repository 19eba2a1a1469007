// The program: arguments -> command -> exit status.
#include <sys/stat.h>

#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/removal_list.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/signals.h"

namespace needle::cli {
namespace {

constexpr char kDefaultCommand[] = "build";

bool FileExists(const std::string& path) {
  struct stat entry = {};
  return stat(path.c_str(), &entry) == 0;
}

// The default command takes anything that is no command, so a mistyped one would come out as an
// unknown file; this tells the user.
absl::Status MistypedCommand(const CommandSet& commands, const std::string& word) {
  if (word.starts_with('-') || FileExists(word)) return absl::OkStatus();
  std::vector<std::string> names;
  for (const auto& command : commands.commands()) names.push_back(command->spec().name);
  const std::string near = NearestWord(word, names);
  if (near.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", word, "' is neither a command nor a file; did you mean needle-build ", near, "?"));
}

bool AsksForHelp(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "-h" || argument == "--help") return true;
  }
  return false;
}

absl::StatusOr<ExitCode> RunCommand(Command& command, const std::vector<std::string>& arguments,
                                    Session& session) {
  if (AsksForHelp(arguments)) {
    session.out.Write(CommandHelp(command));
    return ExitCode::kDone;
  }
  if (absl::Status parsed = command.Parse(arguments); !parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.message(), " (see needle-build ", command.spec().name, " --help)"));
  }
  RETURN_IF_ERROR(command.CheckFiles());
  return command.Run(session);
}

absl::StatusOr<ExitCode> RunProgram(std::vector<std::string> arguments, Session& session) {
  CommandSet commands;
  AddAllCommands(commands);
  if (arguments.empty()) {
    return absl::InvalidArgumentError("no command and no checkpoint (see needle-build --help)");
  }
  const std::string first = arguments.front();
  if (first == "-h" || first == "--help" || first == "help") {
    session.out.Write(ProgramHelp(commands));
    return ExitCode::kDone;
  }
  if (first == "--version") {
    session.out.Write(VersionText() + "\n");
    return ExitCode::kDone;
  }
  if (Command* command = commands.Find(first); command != nullptr) {
    arguments.erase(arguments.begin());
    return RunCommand(*command, arguments, session);
  }
  if (absl::Status mistyped = MistypedCommand(commands, first); !mistyped.ok()) return mistyped;
  return RunCommand(*commands.Find(kDefaultCommand), arguments, session);
}

int Main(std::vector<std::string> arguments) {
  OccupyStandardDescriptors();
  InstallSignalHandlers();
  Session session;
  absl::StatusOr<ExitCode> result = RunProgram(std::move(arguments), session);
  for (const std::string& path : base::AtomicFile::TakeRemovedLeftovers()) {
    session.messages.Info(absl::StrCat("removed ", path, ", left by a run that was killed"));
  }
  if (!result.ok()) {
    session.messages.Error(base::StdView(result.status().message()));
    result = ExitCodeFor(result.status());
  }
  if (absl::Status flushed = session.out.Flush(); !flushed.ok()) {
    // The reader of a pipe that went away knows.
    if (!absl::IsAborted(flushed)) session.messages.Error(base::StdView(flushed.message()));
    result = ExitCode::kFailed;
  }
  return static_cast<int>(*result);
}

}  // namespace
}  // namespace needle::cli

int main(int argc, char** argv) {
  try {
    return needle::cli::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::bad_alloc&) {
    needle::base::RemoveRemembered();
    needle::cli::WriteToStandardError("needle-build: error: out of memory\n");
  }
  return static_cast<int>(needle::cli::ExitCode::kFailed);
}
