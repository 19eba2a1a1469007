// Field case F01, output safety, on every command that writes a file.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>

#include "gmock/gmock.h"
#include "tests/cli/samples.h"

namespace needle::tests {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Writer {
  std::string name;
  std::string sample;                      // its input, below testdata/
  std::string input;                       // the name that the copy gets
  std::string ending;                      // of the output
  std::vector<std::string> before, after;  // arguments around input and output
};

const std::vector<Writer>& Writers() {
  static const std::vector<Writer>* writers = new std::vector<Writer>{
      {"build", kOddCheckpoint, "in.safetensors", ".cact", {"build"}, {"-o"}},
      {"requantize", kOddArchive, "in.cact", ".cact", {"requantize"}, {"--bits", "4", "-o"}},
      {"slice", kOddArchive, "in.cact", ".cact", {"slice"}, {"--layers", "2", "-o"}},
      {"golden", kOddArchive, "in.cact", ".npz", {"golden"}, {"-o"}},
      {"dump", kOddArchive, "in.cact", ".npy", {"dump"}, {"embedding", "-o"}},
      {"manifest", kOddArchive, "in.cact", ".json", {"manifest"}, {"-o"}},
      {"run", kOddArchive, "in.cact", ".npz", {"run"}, {"--token-ids", "1,2,3", "--logits"}},
      {"report", kFixtureArchive, "in.cact", ".html", {"report"}, {"-o"}},
  };
  return *writers;
}

class OutputSafetyTest : public CommandTest, public ::testing::WithParamInterface<Writer> {
 protected:
  void SetUp() override {
    input_ = Copy(GetParam().sample, GetParam().input);
    original_ = ReadFile(input_);
    ASSERT_FALSE(original_.empty());
  }

  std::vector<std::string> Arguments(const std::string& output) const {
    std::vector<std::string> arguments = GetParam().before;
    arguments.push_back(input_);
    arguments.insert(arguments.end(), GetParam().after.begin(), GetParam().after.end());
    arguments.push_back(output);
    return arguments;
  }
  ProgramCall Call(const std::string& output) const {
    ProgramCall call;
    call.arguments = Arguments(output);
    return call;
  }
  std::string Output(const std::string& stem = "out") const {
    return File(stem + GetParam().ending);
  }
  // What stays in the folder, besides the input, when nothing was written.
  void ExpectNothingWritten() const {
    EXPECT_EQ(ReadFile(input_), original_);
    EXPECT_THAT(folder_.Names(), ::testing::ElementsAre(GetParam().input));
  }

  std::string input_;
  std::string original_;
};

INSTANTIATE_TEST_SUITE_P(Commands, OutputSafetyTest, ::testing::ValuesIn(Writers()),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(OutputSafetyTest, WritesAndReplaces) {
  WriteFile(Output(), "older");
  Expect(0, Arguments(Output()));
  EXPECT_NE(ReadFile(Output()), "older");
  EXPECT_EQ(folder_.Names().size(), 2U);
  EXPECT_EQ(ReadFile(input_), original_);
}

TEST_P(OutputSafetyTest, RefusesTheInputAsOutput) {
  const std::string symbolic = Output("symbolic"), hard = Output("hard");
  ASSERT_EQ(symlink(input_.c_str(), symbolic.c_str()), 0);
  ASSERT_EQ(link(input_.c_str(), hard.c_str()), 0);
  for (const std::string& output : {symbolic, hard, input_}) {
    const ProgramResult result = Expect(2, Arguments(output));
    EXPECT_THAT(result.err, HasSubstr(output));
    EXPECT_EQ(ReadFile(input_), original_);
  }
  EXPECT_EQ(folder_.Names().size(), 3U);
}

TEST_P(OutputSafetyTest, RefusesAFolderThatDoesNotExist) {
  const std::string output = File("none/out" + GetParam().ending);
  EXPECT_THAT(Expect(3, Arguments(output)).err, HasSubstr(File("none")));
  ExpectNothingWritten();
}

TEST_P(OutputSafetyTest, RefusesAFolderAsOutput) {
  ASSERT_TRUE(std::filesystem::create_directory(Output()));
  EXPECT_THAT(Expect(2, Arguments(Output())).err, HasSubstr(Output()));
  EXPECT_TRUE(std::filesystem::is_empty(Output()));
}

TEST_P(OutputSafetyTest, RefusesAReadOnlyFile) {
  WriteFile(Output(), "precious");
  ASSERT_EQ(chmod(Output().c_str(), 0444), 0);
  EXPECT_THAT(Expect(3, Arguments(Output())).err, HasSubstr("read-only"));
  EXPECT_EQ(ReadFile(Output()), "precious");
}

TEST_P(OutputSafetyTest, RefusesADevice) {
  const std::string output = Output("full");
  ASSERT_EQ(symlink("/dev/full", output.c_str()), 0);
  EXPECT_THAT(Expect(2, Arguments(output)).err, HasSubstr("device"));
  EXPECT_EQ(folder_.Names().size(), 2U);
}

TEST_P(OutputSafetyTest, AFileSizeLimitIsAFailureThatLeavesNothing) {
  ProgramCall call = Call(Output());
  call.in_child = [] {
    const rlimit limit = {64, 64};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const ProgramResult result = RunProgram(call);
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(Output()));
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  ExpectNothingWritten();
}

TEST_P(OutputSafetyTest, AFullDiskIsAFailureThatLeavesNothing) {
  const std::string disk = File("disk");
  ASSERT_TRUE(std::filesystem::create_directory(disk));
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=4k") != 0) {
    GTEST_SKIP() << "mounting a tmpfs needs privileges; AFailingCallLeavesNothing covers ENOSPC";
  }
  const ProgramResult result = RunProgram(Arguments(disk + "/out" + GetParam().ending));
  const bool empty = std::filesystem::is_empty(disk);
  umount2(disk.c_str(), MNT_DETACH);
  // A manifest fits: then all went well.
  if (GetParam().name == "manifest" && result.exit_code == 0) return;
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
  EXPECT_THAT(result.err, HasSubstr(disk));
  EXPECT_TRUE(empty);
}

// The disk fills up, cannot be synced, or the rename fails, with and without an older file.
TEST_P(OutputSafetyTest, AFailingCallLeavesNothing) {
  const std::map<std::string, int> failures = {
      {"pwrite", ENOSPC}, {"fsync", EIO}, {"rename", EACCES}};
  for (const bool older : {false, true}) {
    for (const auto& [function, error] : failures) {
      SCOPED_TRACE(function);
      if (older) WriteFile(Output(), "older");
      ProgramCall call = Call(Output());
      call.environment = FailAt(function, 1, error);
      const ProgramResult result = RunProgram(call);
      EXPECT_THAT(result.exit_code, ::testing::AnyOf(1, 3)) << result.err;
      EXPECT_THAT(result.err, HasSubstr(Output()));
      EXPECT_EQ(folder_.Names().size(), older ? 2U : 1U);
      if (older) {
        EXPECT_EQ(ReadFile(Output()), "older");
      }
    }
  }
}

TEST_P(OutputSafetyTest, AnInterruptionLeavesNothing) {
  for (const bool older : {false, true}) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      for (const char* function : {"pwrite", "fsync", "rename"}) {
        SCOPED_TRACE(function);
        if (older) WriteFile(Output(), "older");
        ProgramCall call = Call(Output());
        call.environment = SignalAt(function, 1, number);
        const ProgramResult result = RunProgram(call);
        EXPECT_EQ(result.exit_code, 130) << result.err;
        EXPECT_EQ(folder_.Names().size(), older ? 2U : 1U);
        if (older) {
          EXPECT_EQ(ReadFile(Output()), "older");
        }
      }
    }
  }
}

TEST_P(OutputSafetyTest, AKillLeavesTheOlderFileAndTheNextRunWorks) {
  WriteFile(Output(), "older");
  ProgramCall call = Call(Output());
  call.environment = SignalAt("fsync", 1, SIGKILL);
  EXPECT_EQ(RunProgram(call).exit_code, -SIGKILL);
  EXPECT_EQ(ReadFile(Output()), "older");
  Expect(0, Arguments(Output()));
  const std::string killed_then_run = ReadFile(Output());
  Expect(0, Arguments(Output("fresh")));
  EXPECT_EQ(killed_then_run, ReadFile(Output("fresh")));
}

// synth writes half a gigabyte, so only what it refuses before that.
TEST_F(CommandTest, SynthChecksItsOutputFirst) {
  EXPECT_THAT(Expect(3, {"synth", "-o", File("none/x.safetensors")}).err, HasSubstr("none"));
  EXPECT_THAT(Expect(2, {"synth", "-o", folder_.path()}).err, HasSubstr(folder_.path()));
  EXPECT_THAT(folder_.Names(), IsEmpty());
}

TEST_F(CommandTest, LadderChecksEveryOutputFirst) {
  const std::string checkpoint = Copy(kOddCheckpoint, "in.safetensors");
  EXPECT_THAT(Expect(3, {"ladder", checkpoint, "--depths", "2-3", "--out-dir", File("none")}).err,
              HasSubstr("none"));
  WriteFile(File("in.layers03.cact"), "precious");
  ASSERT_EQ(chmod(File("in.layers03.cact").c_str(), 0444), 0);
  EXPECT_THAT(Expect(3, {"ladder", checkpoint, "--depths", "2-3", "--out-dir", folder_.path()}).err,
              HasSubstr("in.layers03.cact"));
  EXPECT_THAT(folder_.Names(), Not(Contains("in.layers02.cact")));
}

}  // namespace
}  // namespace needle::tests
