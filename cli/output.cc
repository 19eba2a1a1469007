#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/strings.h"

namespace needle::cli {
namespace {

constexpr size_t kFlushAt = 1 << 16;

// 0, or errno of the write that failed.
int WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

absl::Status OutputStatus(int error) {
  const std::string message = absl::StrCat("standard output: ", std::strerror(error));
  if (error == EPIPE) return absl::AbortedError(message);
  if (error == ENOSPC) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

// One line, so that a program that reads errors gets one whole message a line.
std::string OneLine(std::string_view text) {
  std::string line(text.substr(0, text.find_last_not_of("\r\n") + 1));
  return absl::StrReplaceAll(line, {{"\r", " "}, {"\n", "; "}});
}

void WriteLabelled(std::string_view label, const char* colour, std::string_view text) {
  const std::string shown =
      MayColour(STDERR_FILENO)
          ? absl::StrCat("\x1b[1;", colour, "m", base::AbslView(label), "\x1b[0m")
          : std::string(label);
  WriteToStandardError(absl::StrCat("needle-build: ", shown, " ", OneLine(text), "\n"));
}

}  // namespace

void Output::Write(std::string_view text) {
  pending_.append(text);
  if (pending_.size() >= kFlushAt) Flush().IgnoreError();
}

void Output::WriteJson(const base::Json& value) {
  Write(base::DumpJsonPretty(value));
  Write("\n");
}

absl::Status Output::Flush() {
  if (status_.ok() && !pending_.empty()) {
    if (const int error = WriteAll(STDOUT_FILENO, pending_); error != 0) {
      status_ = OutputStatus(error);
    }
  }
  pending_.clear();
  return status_;
}

void Messages::Info(std::string_view text) const {
  if (!quiet_) WriteToStandardError(absl::StrCat(base::AbslView(text), "\n"));
}

void Messages::Warning(std::string_view text) const {
  if (!quiet_) WriteLabelled("warning:", "33", text);
}

void Messages::Error(std::string_view text) const { WriteLabelled("error:", "31", text); }

bool MayColour(int descriptor) {
  if (isatty(descriptor) == 0) return false;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

void WriteToStandardError(std::string_view text) { WriteAll(STDERR_FILENO, text); }

void OccupyStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1) continue;
    // The lowest free number is `descriptor`. Standard input fails to read, the others to write.
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", flags) != descriptor) std::abort();
  }
}

}  // namespace needle::cli
