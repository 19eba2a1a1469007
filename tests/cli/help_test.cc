// --help, the man page and the completion scripts tell of every command and option.
#include "cli/help.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/completion_script.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/program.h"
#include "tests/support/files.h"

namespace needle::cli {
namespace {

using ::testing::HasSubstr;
using tests::ProgramCall;
using tests::ProgramResult;
using tests::RunProgram;

class HelpTest : public ::testing::Test {
 protected:
  HelpTest() { AddAllCommands(commands_); }

  // Calls `check` for each command that help lists.
  template <typename Check>
  void ForEach(const Check& check) const {
    for (const auto& command : commands_.commands()) {
      if (command->spec().heading.empty()) continue;
      SCOPED_TRACE(command->spec().name);
      check(*command);
    }
  }

  CommandSet commands_;
};

TEST_F(HelpTest, EveryCommandIsExplained) {
  const ProgramResult program = RunProgram({"--help"});
  EXPECT_EQ(program.exit_code, 0);
  ForEach([&](const Command& command) {
    EXPECT_THAT(program.out, HasSubstr(absl::StrCat("  ", command.spec().name, " ")));
    EXPECT_FALSE(command.spec().examples.empty());
    const ProgramResult help = RunProgram({command.spec().name, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_EQ(help.err, "");
    for (const OptionSpec& option : command.options()) {
      EXPECT_FALSE(option.help.empty()) << option.names;
      if (!option.positional()) {
        EXPECT_THAT(help.out, HasSubstr(option.long_name()));
      }
    }
  });
}

TEST_F(HelpTest, LinesFitATerminal) {
  ForEach([&](const Command& command) {
    const std::string help = CommandHelp(command);
    size_t start = 0;
    for (size_t end = help.find('\n'); end != std::string::npos; end = help.find('\n', start)) {
      const std::string line = help.substr(start, end - start);
      if (!line.starts_with("  needle-build")) {
        EXPECT_LE(line.size(), 96U) << line;
      }
      start = end + 1;
    }
  });
}

TEST_F(HelpTest, ManPageHoldsWhatHelpHolds) {
  ProgramCall call;
  call.program = "/usr/bin/man";
  call.arguments = {"-l", NEEDLE_BINARY_DIR "/cli/needle-build.1"};
  call.environment = {{"MANWIDTH", "100"}, {"LC_ALL", "C"}, {"MAN_KEEP_FORMATTING", ""}};
  const ProgramResult page = RunProgram(call);
  ASSERT_EQ(page.exit_code, 0) << page.err;
  ForEach([&](const Command& command) {
    EXPECT_THAT(page.out, HasSubstr(absl::StrCat("needle-build ", command.spec().name)));
    for (const OptionSpec& option : command.options()) {
      if (!option.positional()) {
        EXPECT_THAT(page.out, HasSubstr(option.long_name()));
      }
    }
  });
}

// Runs bash with the completion script and prints the answers for `words`, the last being typed.
std::string BashAnswers(const std::string& words, int current) {
  ProgramCall call;
  call.program = "/bin/bash";
  call.arguments = {"-c", absl::StrCat("source " NEEDLE_BINARY_DIR "/cli/needle-build.bash; ",
                                       "COMP_WORDS=(", words, "); COMP_CWORD=", current,
                                       "; _needle_build; echo \"${COMPREPLY[*]}\"")};
  const ProgramResult result = RunProgram(call);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

TEST_F(HelpTest, BashCompletesCommandsOptionsAndWords) {
  EXPECT_EQ(BashAnswers("needle-build comp", 1), "completion\n");
  EXPECT_EQ(BashAnswers("needle-build completion z", 2), "zsh\n");
  ForEach([&](const Command& command) {
    const std::string answers =
        BashAnswers(absl::StrCat("needle-build ", command.spec().name, " x -"), 3);
    for (const OptionSpec& option : command.options()) {
      for (const std::string& name : option.name_list()) {
        if (!option.positional()) {
          EXPECT_THAT(answers, HasSubstr(name));
        }
      }
    }
  });
}

TEST_F(HelpTest, EveryShellKnowsEveryOption) {
  const std::string zsh = ZshCompletion(commands_);
  const std::string fish = FishCompletion(commands_);
  ForEach([&](const Command& command) {
    EXPECT_THAT(zsh, HasSubstr(absl::StrCat("\n    ", command.spec().name, ")\n")));
    for (const OptionSpec& option : command.options()) {
      if (option.positional()) continue;
      EXPECT_THAT(zsh, HasSubstr(absl::StrCat(option.long_name(), "[")));
      EXPECT_THAT(fish, HasSubstr(absl::StrCat("seen_subcommand_from ", command.spec().name, "'")));
      EXPECT_THAT(fish, HasSubstr(absl::StrCat("-l ", option.long_name().substr(2))));
    }
  });
}

}  // namespace
}  // namespace needle::cli
