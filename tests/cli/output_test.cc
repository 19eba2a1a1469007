// Standard output, standard error and the exit code of the program as a whole.
#include <fcntl.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/program.h"

namespace needle::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(OutputTest, FullStandardOutputIsAFailure) {
  ProgramCall call;
  call.arguments = {"--help"};
  call.in_child = [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  const ProgramResult result = RunProgram(call);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "needle-build: error: standard output: No space left on device\n");
}

TEST(OutputTest, ClosedStandardOutputIsAFailure) {
  ProgramCall call;
  call.arguments = {"--help"};
  call.in_child = [] { close(STDOUT_FILENO); };
  const ProgramResult result = RunProgram(call);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "needle-build: error: standard output: Bad file descriptor\n");
}

TEST(OutputTest, AReaderThatWentAwayEndsItWithoutWords) {
  ProgramCall call;
  call.arguments = {"--help"};
  call.in_child = [] {
    int ends[2];
    if (pipe(ends) != 0) _exit(126);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
  };
  const ProgramResult result = RunProgram(call);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "");
}

TEST(OutputTest, ErrorsAreOnePlainLine) {
  const ProgramResult result = RunProgram({"completion", "tcsh"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "needle-build: error: shell: 'tcsh', want bash or zsh or fish (see needle-build "
            "completion --help)\n");
}

TEST(OutputTest, NoArgumentsIsWrongUsage) {
  const ProgramResult result = RunProgram(std::vector<std::string>());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("needle-build --help"));
}

TEST(OutputTest, AMistypedCommandIsTold) {
  const ProgramResult result = RunProgram({"completoin", "bash"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("did you mean needle-build completion?"));
}

TEST(OutputTest, TellsItsVersion) {
  const ProgramResult result = RunProgram({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, MatchesRegex("needle-build [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace needle::tests
