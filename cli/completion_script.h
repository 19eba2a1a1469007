// cli/completion_script.h: completion for shells, made from the commands' own description.
#ifndef NEEDLE_CLI_COMPLETION_SCRIPT_H_
#define NEEDLE_CLI_COMPLETION_SCRIPT_H_

#include <string>

#include "cli/command_line.h"

namespace needle::cli {

std::string BashCompletion(const CommandSet& commands);
std::string ZshCompletion(const CommandSet& commands);
std::string FishCompletion(const CommandSet& commands);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_COMPLETION_SCRIPT_H_
