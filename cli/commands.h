// cli/commands.h: every command; each is defined in the file <name>_command.cc.
#ifndef NEEDLE_CLI_COMMANDS_H_
#define NEEDLE_CLI_COMMANDS_H_

#include "cli/command_line.h"

namespace needle::cli {

// The headings under which help lists the commands.
inline constexpr char kMakeHeading[] = "Make archives";
inline constexpr char kLookHeading[] = "Look inside";
inline constexpr char kProveHeading[] = "Run and prove";
inline constexpr char kShellHeading[] = "For the shell";

void AddCompletion(CommandSet& commands);
void AddManPage(CommandSet& commands);

// All of them, in the order of the help.
void AddAllCommands(CommandSet& commands);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_COMMANDS_H_
