// cli/output.h: standard output holds data, standard error holds words.
#ifndef NEEDLE_CLI_OUTPUT_H_
#define NEEDLE_CLI_OUTPUT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/json.h"

namespace needle::cli {

// Standard output. What cannot be written is remembered and told by Flush, so commands write
// without checking and the program checks once.
class Output {
 public:
  void Write(std::string_view text);
  // `value` with two-space indentation and a newline.
  void WriteJson(const base::Json& value);
  // Sends what was written so far. Internal or ResourceExhausted with the system's reason:
  // something since the start could not be written. Aborted: the reader of a pipe went away.
  absl::Status Flush();

 private:
  std::string pending_;
  absl::Status status_;
};

// Standard error, a line a message. Nothing but errors with `quiet`.
class Messages {
 public:
  void set_quiet(bool quiet) { quiet_ = quiet; }
  bool quiet() const { return quiet_; }

  void Info(std::string_view text) const;
  void Warning(std::string_view text) const;
  void Error(std::string_view text) const;

 private:
  bool quiet_ = false;
};

// Whether text for this descriptor may be coloured: a terminal, and neither NO_COLOR nor TERM=dumb
// in the environment.
bool MayColour(int descriptor);

// Writes all of `text` to standard error; failures are ignored.
void WriteToStandardError(std::string_view text);

// Puts a descriptor that fails every read or write in place of a closed standard one, so that no
// file the program opens becomes standard output by accident.
void OccupyStandardDescriptors();

}  // namespace needle::cli

#endif  // NEEDLE_CLI_OUTPUT_H_
