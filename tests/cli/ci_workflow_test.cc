// The workflow of docs/ci.md, run as it stands.
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/cli/samples.h"

namespace needle::tests {
namespace {

TEST_F(CommandTest, TheWorkflowOfTheCiPageRuns) {
  const std::string page = ReadFile(absl::StrCat(NEEDLE_SOURCE_DIR, "/docs/ci.md"));
  const size_t start = page.find("```sh\n");
  ASSERT_NE(start, std::string::npos);
  const std::string script = page.substr(start + 6, page.find("```", start + 6) - start - 6);
  const std::string program = NEEDLE_BUILD_PROGRAM;
  ProgramCall call;
  call.program = "/bin/sh";
  call.arguments = {"-c", script};
  call.folder = folder_.path();
  call.environment = {
      {"PATH", absl::StrCat(program.substr(0, program.rfind('/')), ":", std::getenv("PATH"))},
      {"CHECKPOINT", Testdata(kFixtureCheckpoint)},
      {"TOKENIZER", Testdata(kFixtureTokenizer)},
      {"DIST", File("dist")}};
  const ProgramResult result = RunProgram(call);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_NE(ReadFile(File("dist/checkpoint.layers06.verify.json")), "");
  EXPECT_NE(ReadFile(File("dist/golden.npz")), "");

  // The same workflow fails when an archive is damaged after it was made: the last steps see it.
  std::string bytes = ReadFile(File("dist/checkpoint.layers02.cact"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteFile(File("dist/checkpoint.layers02.cact"), bytes);
  call.arguments = {"-c", "needle-build verify --manifest \"$DIST/manifest.json\""};
  EXPECT_EQ(RunProgram(call).exit_code, 4);
}

}  // namespace
}  // namespace needle::tests
