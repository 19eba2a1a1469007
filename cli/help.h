// cli/help.h: the help texts, for the terminal and as a man page.
#ifndef NEEDLE_CLI_HELP_H_
#define NEEDLE_CLI_HELP_H_

#include <string>

#include "cli/command_line.h"

namespace needle::cli {

// What `needle-build --help` prints: the commands under their headings, examples, exit codes.
std::string ProgramHelp(const CommandSet& commands);
// What `needle-build COMMAND --help` prints.
std::string CommandHelp(const Command& command);
// "needle-build inspect [options] FILE"
std::string Usage(const Command& command);
// The same texts as one man page in section 1 (troff, man macros).
std::string ManPage(const CommandSet& commands);
// "0.1.0", and "needle-build 0.1.0".
std::string Version();
std::string VersionText();

}  // namespace needle::cli

#endif  // NEEDLE_CLI_HELP_H_
