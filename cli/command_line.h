// cli/command_line.h: commands and their options. One description of each serves for parsing, help,
// the man page, the shells' completion and the check of docs/cli.md, so they cannot disagree.
#ifndef NEEDLE_CLI_COMMAND_LINE_H_
#define NEEDLE_CLI_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/exit_code.h"
#include "cli/output.h"

namespace needle::cli {

// What a command prints to.
struct Session {
  Output out;
  Messages messages;
};

// What a command does with the file that an option names.
enum class FileUse {
  kReads,
  kWrites,
  kReadsOrWrites,  // reads it if it is there
};

// How an option is called and explained.
struct OptionSpec {
  std::string names = {};  // "-o,--output"; without dashes the name of a positional argument
  // How its value is shown: "N", or "FILE" and "DIR", which shells complete as paths, or the words
  // it may be, as in "reference|analytic". Empty for a flag.
  std::string value = {};
  std::string help = {};          // a lower-case phrase without a full stop
  FileUse use = FileUse::kReads;  // of a "FILE"
  bool required = false;
  bool repeatable = false;  // set by Add for lists
  uint64_t min = 0;         // of whole numbers
  uint64_t max = UINT64_MAX;
  double most =
      std::numeric_limits<double>::infinity();  // of real numbers, which are never negative

  bool flag() const { return value.empty() && !positional(); }
  bool positional() const { return !names.empty() && names[0] != '-'; }
  // The words of `value`; empty when it is none of "a|b".
  std::vector<std::string> choices() const;
  // "-o", "--output".
  std::vector<std::string> name_list() const;
  // The last of them.
  std::string long_name() const { return name_list().back(); }
};

struct Example {
  std::string command = {};  // without "needle-build "
  std::string comment = {};
};

struct CommandSpec {
  std::string name = {};
  std::string heading = {};  // under which the list of commands shows it; empty: hidden
  std::string summary = {};  // one line
  std::string description = {};
  std::vector<Example> examples = {};
};

class Command {
 public:
  explicit Command(CommandSpec spec) : spec_(std::move(spec)) {}
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Where the value goes: it must live as long as the command. A list takes an option as often as
  // it is given; everything else once.
  void Add(OptionSpec spec, bool* target);
  void Add(OptionSpec spec, std::string* target);
  void Add(OptionSpec spec, std::optional<std::string>* target);
  void Add(OptionSpec spec, std::vector<std::string>* target);
  void Add(OptionSpec spec, uint64_t* target);
  void Add(OptionSpec spec, std::optional<uint64_t>* target);
  void Add(OptionSpec spec, double* target);
  void Add(OptionSpec spec, std::optional<double>* target);

  // Options that may not be given together, by their long names.
  void Exclude(std::string a, std::string b) { excluded_.push_back({std::move(a), std::move(b)}); }
  // `option` makes sense only together with `needed`.
  void Need(std::string option, std::string needed) {
    needed_.push_back({std::move(option), std::move(needed)});
  }
  void OnRun(std::function<absl::StatusOr<ExitCode>(Session&)> run) { run_ = std::move(run); }

  const CommandSpec& spec() const { return spec_; }
  const std::vector<OptionSpec>& options() const { return options_; }

  // Sets the targets from the arguments behind the command's name, without `--help`.
  // InvalidArgument: one line that says what is wrong.
  absl::Status Parse(const std::vector<std::string>& arguments);
  // That each file which the parsed arguments have the command write is no other of their files.
  // InvalidArgument naming both.
  absl::Status CheckFiles() const;
  absl::StatusOr<ExitCode> Run(Session& session) const { return run_(session); }

 private:
  struct Pair {
    std::string first, second;
  };
  // Reads one value of the option; returns an empty text, or what is wrong with it.
  using Reader = std::function<std::string(const std::string&)>;
  // An option's occurrences on a command line.
  struct Given {
    size_t count = 0;
    std::vector<std::string> values;
  };

  void AddOption(OptionSpec spec, Reader reader);
  absl::StatusOr<std::vector<Given>> Split(const std::vector<std::string>& arguments) const;
  absl::Status Assign(const std::vector<Given>& given) const;
  void CollectFiles(const std::vector<Given>& given);

  CommandSpec spec_;
  std::vector<OptionSpec> options_;
  std::vector<Reader> readers_;  // one for each option
  std::vector<Pair> excluded_, needed_;
  std::vector<std::string> read_files_, written_files_;  // of the parsed arguments
  std::function<absl::StatusOr<ExitCode>(Session&)> run_;
};

// All commands, in the order in which help lists them.
class CommandSet {
 public:
  Command& Add(CommandSpec spec);
  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }
  Command* Find(std::string_view name) const;

 private:
  std::vector<std::unique_ptr<Command>> commands_;
};

// The word of `words` nearest to `word` when it is near enough to be meant; else empty.
std::string NearestWord(std::string_view word, const std::vector<std::string>& words);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_COMMAND_LINE_H_
