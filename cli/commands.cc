#include "cli/commands.h"

namespace needle::cli {

void AddAllCommands(CommandSet& commands) {
  AddCompletion(commands);
  AddManPage(commands);
}

}  // namespace needle::cli
