#include <memory>

#include "cli/commands.h"
#include "cli/completion_script.h"
#include "cli/help.h"

namespace needle::cli {

void AddCompletion(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "completion",
      .heading = kShellHeading,
      .summary = "print a shell's completion script",
      .description = "Prints a script that teaches a shell to complete needle-build's commands, "
                     "options and files.",
      .examples = {{"completion bash > /etc/bash_completion.d/needle-build", "bash, for all users"},
                   {"completion fish > ~/.config/fish/completions/needle-build.fish", "fish"}},
  });
  auto shell = std::make_shared<std::string>();
  command.Add(
      {.names = "shell", .value = "bash|zsh|fish", .help = "bash, zsh or fish", .required = true},
      shell.get());
  command.OnRun([shell, &commands](Session& session) -> absl::StatusOr<ExitCode> {
    session.out.Write(*shell == "bash"  ? BashCompletion(commands)
                      : *shell == "zsh" ? ZshCompletion(commands)
                                        : FishCompletion(commands));
    return ExitCode::kDone;
  });
}

void AddManPage(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "man-page",
      .summary = "print the man page",
      .description = "Prints the man page in troff, as `cmake --install` puts it in place.",
  });
  command.OnRun([&commands](Session& session) -> absl::StatusOr<ExitCode> {
    session.out.Write(ManPage(commands));
    return ExitCode::kDone;
  });
}

}  // namespace needle::cli
