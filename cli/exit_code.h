// cli/exit_code.h: what the program's exit status means. The one table; docs/cli.md and the man
// page print it.
#ifndef NEEDLE_CLI_EXIT_CODE_H_
#define NEEDLE_CLI_EXIT_CODE_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace needle::cli {

enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kInputRefused = 3,
  kVerificationDiffers = 4,
  kWarnings = 5,
  kInterrupted = 130,
};

struct ExitCodeMeaning {
  ExitCode code;
  std::string_view meaning;
};

// Every code, in ascending order.
std::span<const ExitCodeMeaning> ExitCodeMeanings();

// The code that a failed `status` ends the program with; kDone for OK.
ExitCode ExitCodeFor(const absl::Status& status);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_EXIT_CODE_H_
