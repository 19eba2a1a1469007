#include "cli/exit_code.h"

namespace needle::cli {

std::span<const ExitCodeMeaning> ExitCodeMeanings() {
  static constexpr ExitCodeMeaning kMeanings[] = {
      {ExitCode::kDone, "done"},
      {ExitCode::kFailed, "failed: the disk is full, an output could not be written, a bug"},
      {ExitCode::kUsage, "wrong usage: an unknown option, a value that cannot be"},
      {ExitCode::kInputRefused,
       "refused before any work: a file is missing, damaged, of an unsupported kind, or may not be "
       "read or written"},
      {ExitCode::kVerificationDiffers, "finished, and the verification or comparison differs"},
      {ExitCode::kWarnings, "finished with warnings under --strict"},
      {ExitCode::kInterrupted, "interrupted by a signal; nothing was left behind"},
  };
  return kMeanings;
}

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kDone;
    case absl::StatusCode::kInvalidArgument:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kInputRefused;
    case absl::StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    default:
      return ExitCode::kFailed;
  }
}

}  // namespace needle::cli
