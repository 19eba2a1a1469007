// The documentation says what the program does: help texts, JSON fields, README's commands.
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "gmock/gmock.h"
#include "tests/cli/samples.h"
#include "tests/support/examples.h"

namespace needle::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Page(const std::string& name) {
  return ReadFile(absl::StrCat(NEEDLE_SOURCE_DIR, "/", name));
}

// The part of docs/cli.md about a command.
std::string Section(const std::string& command) {
  const std::string page = Page("docs/cli.md");
  const size_t start = page.find("\n## " + command + "\n");
  if (start == std::string::npos) return "";
  return page.substr(start, page.find("\n## ", start + 1) - start);
}

TEST(DocsTest, CliPageHoldsEveryHelpText) {
  cli::CommandSet commands;
  cli::AddAllCommands(commands);
  for (const auto& command : commands.commands()) {
    if (command->spec().heading.empty()) continue;
    EXPECT_NE(Section(command->spec().name).find("```text\n" + cli::CommandHelp(*command) + "```"),
              std::string::npos)
        << command->spec().name << ": run scripts/update-docs";
  }
}

TEST(DocsTest, CliPageHoldsEveryExitStatus) {
  for (const auto& row : cli::ExitCodeMeanings()) {
    EXPECT_THAT(Page("docs/cli.md"),
                HasSubstr(absl::StrCat("\n| ", static_cast<int>(row.code), " | ")));
  }
}

// Fields whose content is not ours to list: a header's, a config's, a command's options, calls.
bool IsOpaque(const std::string& path) {
  return path == "header" || path == "config" || path == "options" || path == "calls[]";
}

void AddPaths(const base::Json& value, const std::string& path, std::set<std::string>& paths) {
  if (value.is_array()) {
    for (const base::Json& entry : value) AddPaths(entry, path + "[]", paths);
    return;
  }
  if (!path.empty() && (!value.is_object() || IsOpaque(path))) paths.insert(path);
  if (!value.is_object() || IsOpaque(path)) return;
  for (const auto& [key, entry] : value.items()) {
    AddPaths(entry, path.empty() ? key : absl::StrCat(path, ".", key), paths);
  }
}

class FieldsTest : public CommandTest {
 protected:
  // Every field that the command prints is documented in its section, as `path`.
  void ExpectDocumented(const std::string& command, const base::Json& value,
                        const std::string& prefix = "") {
    ASSERT_FALSE(value.empty()) << command;
    std::set<std::string> paths;
    AddPaths(value, prefix, paths);
    const std::string section = Section(command);
    std::erase_if(paths, [&section](const std::string& path) {
      return absl::StrContains(section, absl::StrCat("`", path, "`"));
    });
    EXPECT_THAT(paths, IsEmpty()) << "not documented, of " << command;
  }
  void ExpectFields(int exit_code, std::vector<std::string> arguments) {
    arguments.push_back("--json");
    ExpectDocumented(arguments[0], Expect(exit_code, arguments).Json());
  }
  // The same of a build, whose verification is documented as `verify`'s.
  void ExpectBuildFields(const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"build", Testdata(kFixtureCheckpoint), "-o",
                                          File("b.cact"), "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    base::Json build = Expect(0, arguments).Json();
    ExpectDocumented("verify", build["verification"]);
    build.erase("verification");
    ExpectDocumented("build", build);
  }
};

TEST_F(FieldsTest, EveryFieldIsDocumented) {
  const std::string checkpoint = Testdata(kFixtureCheckpoint), archive = Testdata(kFixtureArchive);
  ExpectBuildFields({});
  ExpectBuildFields({"--layers", "2", "--rebalance", "--calibrate", FirstExamples(folder_, 16)});
  ExpectFields(0, {"requantize", archive, "--bits", "3", "-o", File("r.cact")});
  ExpectFields(0, {"slice", archive, "--layers", "3", "-o", File("s.cact")});
  ExpectFields(0, {"ladder", checkpoint, "--depths", "2,3", "--out-dir", folder_.path()});
  ExpectFields(0, {"inspect", archive});
  ExpectFields(0, {"inspect", checkpoint});
  ExpectFields(4, {"diff", archive, Testdata(kOddArchive)});
  ExpectFields(4, {"diff", archive, File("r.cact")});
  ExpectFields(0, {"dump", archive, "embedding", "-o", File("e.npy")});
  ExpectFields(0, {"manifest", archive});
  ExpectFields(0, {"codebook"});
  ExpectFields(0, SmallSynth(File("synth.safetensors")));
  ExpectFields(0, {"run", archive, "count down 24 hours", "--max-new-tokens", "4"});
  ExpectFields(0, {"run", archive, "--token-ids", "2,17", "--logits", File("l.npz")});
  ExpectFields(0, {"verify", archive, "--against", checkpoint});
  ExpectFields(0, {"verify", "--manifest", File("manifest.json")});
  WriteFile(File("one.jsonl"), R"({"query":"count down 24 hours","tools":[],"answers":[]})"
                               "\n");
  ExpectFields(0, {"eval", archive, "--data", File("one.jsonl"), "--against", checkpoint,
                   "--max-new-tokens", "2"});
  ExpectFields(0, {"report", archive, "--data", File("one.jsonl"), "--against", checkpoint,
                   "--max-new-tokens", "4"});
  ExpectFields(0, {"heads", Testdata("golden/n3-small/cq2.cact"), "--text", "hello"});
  ExpectFields(0, {"golden", archive, "-o", File("g.npz")});
}

TEST_F(FieldsTest, EveryFieldOfASearchForWidthsIsDocumented) {
  ExpectBuildFields({"--layers", "2", "--calibrate", FirstExamples(folder_, 16), "--recipe", "rtn",
                     "--target-bits", "2.5"});
}

// Every line of README's console blocks that begins with "$ " runs, in order, in one shell, with
// the program first in PATH and the checkout's files in place.
TEST_F(CommandTest, ReadmeCommandsRun) {
  std::string script = "set -e\n";
  bool inside = false;
  size_t commands = 0;
  const std::string readme = Page("README.md");
  for (size_t start = 0; start < readme.size();) {
    const size_t end = std::min(readme.find('\n', start), readme.size());
    const std::string line = readme.substr(start, end - start);
    start = end + 1;
    if (line.starts_with("```")) inside = line == "```console";
    if (!inside || !line.starts_with("$ ") || line.starts_with("$ scripts/")) continue;
    absl::StrAppend(&script, line.substr(2), "\n");
    ++commands;
  }
  EXPECT_GT(commands, 4U);
  ASSERT_EQ(symlink(NEEDLE_SOURCE_DIR "/testdata", File("testdata").c_str()), 0);
  ProgramCall call;
  call.program = "/bin/bash";
  call.arguments = {"-c", script};
  call.folder = folder_.path();
  const std::string program = NEEDLE_BUILD_PROGRAM;
  call.environment = {
      {"PATH", absl::StrCat(program.substr(0, program.rfind('/')), ":", std::getenv("PATH"))}};
  const ProgramResult result = RunProgram(call);
  EXPECT_EQ(result.exit_code, 0) << script << result.out << result.err;
}

}  // namespace
}  // namespace needle::tests
