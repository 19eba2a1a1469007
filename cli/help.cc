#include "cli/help.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace needle::cli {
namespace {

constexpr size_t kLineWidth = 96;
constexpr std::string_view kSummary =
    "builds .cact archives from checkpoints of the Needle 2 and Needle 3 tool-calling models, and "
    "proves them";
constexpr std::string_view kDefaultCommand =
    "When the first argument is no command, \"build\" is meant.";

const Example kProgramExamples[] = {
    {"model.safetensors -o model.cact", "build with the shipped widths"},
    {"inspect model.cact", "what an archive holds"},
    {"COMMAND --help", "a command's options"},
};

// `text` in lines that end before column kLineWidth; all but the first are indented.
std::string Wrap(const std::string& text, size_t indent, size_t first_column) {
  std::string wrapped;
  size_t column = first_column;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    if (column > indent && column + word.size() + 1 > kLineWidth) {
      wrapped += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > first_column || !wrapped.empty()) {
      wrapped += " ";
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped;
}

struct Entry {
  std::string left, right;
};

// "  left   right", the right sides aligned and wrapped.
std::string EntryList(const std::vector<Entry>& entries) {
  size_t width = 0;
  for (const Entry& entry : entries) {
    if (entry.left.size() <= 28) width = std::max(width, entry.left.size());
  }
  std::string text;
  for (const Entry& entry : entries) {
    const size_t column = width + 4;
    text += "  " + entry.left;
    text += entry.left.size() > width ? "\n" + std::string(column, ' ')
                                      : std::string(column - 2 - entry.left.size(), ' ');
    text += Wrap(entry.right, column, column) + "\n";
  }
  return text;
}

std::string Upper(const std::string& text) { return absl::AsciiStrToUpper(text); }

std::string OptionLeft(const OptionSpec& option) {
  if (option.positional()) return Upper(option.names);
  const std::vector<std::string> names = option.name_list();
  const std::string indent = names.size() == 1 ? "    " : "";
  return absl::StrCat(indent, absl::StrJoin(names, ", "), option.value.empty() ? "" : " ",
                      option.value);
}

std::string OptionRight(const OptionSpec& option) {
  return absl::StrCat(option.help, option.repeatable && !option.positional() ? " (repeatable)" : "",
                      option.required && !option.positional() ? " (required)" : "");
}

const OptionSpec& HelpOption() {
  static const OptionSpec* option = new OptionSpec{.names = "-h,--help", .help = "print this help"};
  return *option;
}

std::vector<OptionSpec> OptionsOf(const Command& command, bool positional) {
  std::vector<OptionSpec> chosen;
  for (const OptionSpec& option : command.options()) {
    if (option.positional() == positional) chosen.push_back(option);
  }
  if (!positional) chosen.push_back(HelpOption());
  return chosen;
}

std::string OptionList(const std::vector<OptionSpec>& options) {
  std::vector<Entry> entries;
  for (const OptionSpec& option : options) {
    entries.push_back({OptionLeft(option), OptionRight(option)});
  }
  return EntryList(entries);
}

std::string ExampleList(std::span<const Example> examples) {
  std::vector<Entry> entries;
  for (const Example& example : examples) {
    entries.push_back({absl::StrCat("needle-build ", example.command), example.comment});
  }
  std::string text;
  for (const Entry& entry : entries)
    text += absl::StrCat("  # ", entry.right, "\n  ", entry.left, "\n");
  return text;
}

// The headings in order of their first command.
std::vector<std::string> Headings(const CommandSet& commands) {
  std::vector<std::string> headings;
  for (const auto& command : commands.commands()) {
    const std::string& heading = command->spec().heading;
    if (!heading.empty() &&
        std::find(headings.begin(), headings.end(), heading) == headings.end()) {
      headings.push_back(heading);
    }
  }
  return headings;
}

std::vector<Entry> CommandsUnder(const CommandSet& commands, const std::string& heading) {
  std::vector<Entry> entries;
  for (const auto& command : commands.commands()) {
    if (command->spec().heading == heading) {
      entries.push_back({command->spec().name, command->spec().summary});
    }
  }
  return entries;
}

std::vector<Entry> ExitCodeEntries() {
  std::vector<Entry> entries;
  for (const ExitCodeMeaning& row : ExitCodeMeanings()) {
    entries.push_back({absl::StrCat(static_cast<int>(row.code)), std::string(row.meaning)});
  }
  return entries;
}

// Text for troff: hyphens that are meant to be typed, and no control characters at a line's start.
std::string Troff(const std::string& text) {
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string TroffEntry(const std::string& left, const std::string& right) {
  return absl::StrCat(".TP\n.B ", Troff(std::string(absl::StripAsciiWhitespace(left))), "\n",
                      Troff(right), "\n");
}

std::string TroffExamples(std::span<const Example> examples) {
  std::string text;
  for (const Example& example : examples) {
    absl::StrAppend(&text, ".PP\n", Troff(example.comment), ":\n.PP\n.nf\n.RS\n",
                    Troff("needle-build " + example.command), "\n.RE\n.fi\n");
  }
  return text;
}

std::string TroffCommand(const Command& command) {
  std::string text = absl::StrCat(".SS ", Troff(command.spec().name), "\n", Troff(Usage(command)),
                                  "\n.PP\n", Troff(command.spec().description), "\n");
  for (const bool positional : {true, false}) {
    for (const OptionSpec& option : OptionsOf(command, positional)) {
      absl::StrAppend(&text, TroffEntry(OptionLeft(option), OptionRight(option)));
    }
  }
  return text + TroffExamples(command.spec().examples);
}

}  // namespace

std::string Version() { return NEEDLE_BUILD_VERSION; }

std::string VersionText() { return "needle-build " + Version(); }

std::string Usage(const Command& command) {
  std::string usage = absl::StrCat("needle-build ", command.spec().name, " [options]");
  for (const OptionSpec& option : OptionsOf(command, true)) {
    const std::string shown = absl::StrCat(Upper(option.names), option.repeatable ? "..." : "");
    absl::StrAppend(&usage, " ", option.required ? shown : "[" + shown + "]");
  }
  return usage;
}

std::string ProgramHelp(const CommandSet& commands) {
  std::string text = absl::StrCat(Wrap("needle-build " + std::string(kSummary) + ".", 0, 0),
                                  "\n\nUsage: needle-build [COMMAND] [options] ...\n",
                                  std::string(kDefaultCommand), "\n");
  for (const std::string& heading : Headings(commands)) {
    absl::StrAppend(&text, "\n", heading, ":\n", EntryList(CommandsUnder(commands, heading)));
  }
  absl::StrAppend(&text, "\nOptions:\n",
                  OptionList({HelpOption(), {.names = "--version", .help = "print the version"}}));
  return absl::StrCat(text, "\nExamples:\n", ExampleList(kProgramExamples), "\nExit status:\n",
                      EntryList(ExitCodeEntries()));
}

std::string CommandHelp(const Command& command) {
  std::string text =
      absl::StrCat("Usage: ", Usage(command), "\n\n", Wrap(command.spec().description, 0, 0), "\n");
  const std::vector<OptionSpec> positional = OptionsOf(command, true);
  if (!positional.empty()) absl::StrAppend(&text, "\nArguments:\n", OptionList(positional));
  absl::StrAppend(&text, "\nOptions:\n", OptionList(OptionsOf(command, false)));
  if (!command.spec().examples.empty()) {
    absl::StrAppend(&text, "\nExamples:\n", ExampleList(command.spec().examples));
  }
  return text;
}

std::string ManPage(const CommandSet& commands) {
  std::string text = absl::StrCat(".TH NEEDLE\\-BUILD 1 \"\" \"", VersionText(),
                                  "\" \"User Commands\"\n.SH NAME\n", Troff("needle-build"),
                                  " \\- ", Troff(std::string(kSummary)), "\n.SH SYNOPSIS\n",
                                  Troff("needle-build [COMMAND] [options] ..."),
                                  "\n.SH DESCRIPTION\n", std::string(kDefaultCommand), "\n");
  for (const std::string& heading : Headings(commands)) {
    absl::StrAppend(&text, ".PP\n", Troff(heading), ":\n");
    for (const Entry& entry : CommandsUnder(commands, heading)) {
      absl::StrAppend(&text, TroffEntry(entry.left, entry.right));
    }
  }
  absl::StrAppend(&text, ".SH COMMANDS\n");
  for (const auto& command : commands.commands()) {
    if (!command->spec().heading.empty()) absl::StrAppend(&text, TroffCommand(*command));
  }
  absl::StrAppend(&text, ".SH EXIT STATUS\n");
  for (const Entry& entry : ExitCodeEntries()) {
    absl::StrAppend(&text, TroffEntry(entry.left, entry.right));
  }
  return absl::StrCat(text, ".SH EXAMPLES\n", TroffExamples(kProgramExamples));
}

}  // namespace needle::cli
