// cli/input_text.h: small inputs that may come from a file or from standard input.
#ifndef NEEDLE_CLI_INPUT_TEXT_H_
#define NEEDLE_CLI_INPUT_TEXT_H_

#include <string>

#include "absl/status/statusor.h"

namespace needle::cli {

// All bytes of the file `path`, or of standard input when it is "-". NotFound and the like as of
// base::MappedFile; Internal: standard input cannot be read.
absl::StatusOr<std::string> ReadInput(const std::string& path);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_INPUT_TEXT_H_
