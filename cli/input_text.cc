#include "cli/input_text.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"

namespace needle::cli {

absl::StatusOr<std::string> ReadInput(const std::string& path) {
  if (path != "-") {
    ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
    return std::string(file.bytes().begin(), file.bytes().end());
  }
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (true) {
    const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("standard input: ", std::strerror(errno)));
    }
  }
}

}  // namespace needle::cli
