// Field case F01, output safety, on every command that writes a file.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

void PrintTo(const Writer& writer, std::ostream* out) { *out << writer.name; }

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
  // More than any of these commands makes before the output stands.
  static constexpr int kCalls = 200;
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
  // A manifest is refused on another disk than that of its archives.
  const ProgramResult result = RunProgram(Arguments(disk + "/out" + GetParam().ending));
  const bool empty = std::filesystem::is_empty(disk);
  umount2(disk.c_str(), MNT_DETACH);
  if (GetParam().name == "manifest" && result.exit_code == 2) return;
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
  EXPECT_THAT(result.err, HasSubstr(disk));
  EXPECT_TRUE(empty);
}

// The disk fills up, cannot be synced, or a rename fails (the trial of one, or the one that puts
// the output into place), with and without an older file.
TEST_P(OutputSafetyTest, AFailingCallLeavesNothing) {
  const std::map<std::string, int> failures = {
      {"pwrite", ENOSPC}, {"fsync", EIO}, {"rename", EACCES}};
  for (const bool older : {false, true}) {
    for (const auto& [function, error] : failures) {
      int count = 0;
      for (ProgramResult result; result.exit_code != 0 && count < kCalls;) {
        SCOPED_TRACE(function);
        if (older) WriteFile(Output(), "older");
        ProgramCall call = Call(Output());
        call.environment = FailAt(function, ++count, error);
        result = RunProgram(call);
        if (result.exit_code == 0) break;
        EXPECT_THAT(result.exit_code, ::testing::AnyOf(1, 3)) << result.err;
        EXPECT_THAT(result.err, HasSubstr(Output()));
        EXPECT_EQ(folder_.Names().size(), older ? 2U : 1U);
        if (older) {
          EXPECT_EQ(ReadFile(Output()), "older");
        }
      }
      EXPECT_GT(count, 1) << function << " is never called";
      std::filesystem::remove(Output());
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

TEST_P(OutputSafetyTest, AFolderWithoutRenameIsNamedBeforeAnyWork) {
  ProgramCall call = Call(Output());
  call.environment = FailAt("rename", 0, EPERM);
  const ProgramResult result = RunProgram(call);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr(Output()));
  EXPECT_THAT(result.err, HasSubstr("choose another folder"));
  ExpectNothingWritten();
}

TEST_P(OutputSafetyTest, AFileSystemThatCannotSyncLosesNothing) {
  for (const int error : {EINVAL, ENOTSUP, ENOSYS}) {
    ProgramCall call = Call(Output());
    call.environment = FailAt("fsync", 0, error);
    const ProgramResult result = RunProgram(call);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(std::filesystem::exists(Output()));
    std::filesystem::remove(Output());
  }
}

// A file that is bound into a container can be written but not replaced.
TEST_P(OutputSafetyTest, RefusesAMountPointBeforeAnyWork) {
  const std::string source = Output("source");
  WriteFile(source, "bound");
  WriteFile(Output(), "below");
  if (mount(source.c_str(), Output().c_str(), nullptr, MS_BIND, nullptr) != 0)
    GTEST_SKIP() << "mounting needs privileges";
  const ProgramResult result = RunProgram(Call(Output()));
  umount2(Output().c_str(), MNT_DETACH);
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr(Output() + ": is a mount point"));
  EXPECT_EQ(ReadFile(source), "bound");
  EXPECT_EQ(folder_.Names().size(), 3U);
}

TEST_P(OutputSafetyTest, AReplacedFileKeepsItsModeAndOwner) {
  for (const mode_t mode : {0600U, 0640U, 0664U, 0777U}) {
    WriteFile(Output(), "older");
    ASSERT_EQ(chmod(Output().c_str(), mode), 0);
    const bool privileged = chown(Output().c_str(), 12, 34) == 0;
    ProgramCall call = Call(Output());
    call.in_child = [] { umask(0027); };
    const ProgramResult result = RunProgram(call);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    struct stat info = {};
    ASSERT_EQ(stat(Output().c_str(), &info), 0);
    EXPECT_NE(ReadFile(Output()), "older");
    EXPECT_EQ(info.st_mode & 07777, mode);
    if (!privileged) continue;
    EXPECT_EQ(info.st_uid, 12U);
    EXPECT_EQ(info.st_gid, 34U);
  }
}

TEST_P(OutputSafetyTest, ANewFileGetsItsModeFromTheUmask) {
  ProgramCall call = Call(Output());
  call.in_child = [] { umask(0027); };
  ASSERT_EQ(RunProgram(call).exit_code, 0);
  struct stat info = {};
  ASSERT_EQ(stat(Output().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640U);
}

// Whoever may not read the older file may not read the new one half written either.
TEST_P(OutputSafetyTest, ATemporaryOfAPrivateFileIsPrivate) {
  WriteFile(Output(), "older");
  ASSERT_EQ(chmod(Output().c_str(), 0600), 0);
  ProgramCall call = Call(Output());
  call.environment = SignalAt("pwrite", 1, SIGKILL);
  ASSERT_EQ(RunProgram(call).exit_code, -SIGKILL);
  for (const std::string& name : folder_.Names()) {
    struct stat info = {};
    ASSERT_EQ(stat(File(name).c_str(), &info), 0);
    if (name.ends_with(".tmp")) {
      EXPECT_EQ(info.st_mode & 0077, 0U);
    }
  }
}

TEST_P(OutputSafetyTest, AnyLegalNameWorks) {
  for (const size_t size : {240UL, 245UL, 255UL}) {
    const std::string stem(size - GetParam().ending.size(), 'n');
    Expect(0, Arguments(Output(stem)));
    EXPECT_TRUE(std::filesystem::exists(Output(stem)));
    std::filesystem::remove(Output(stem));
  }
}

TEST_P(OutputSafetyTest, AKillLeavesTheOlderFileAndTheNextRunWorks) {
  WriteFile(Output(), "older");
  ProgramCall call = Call(Output());
  call.environment = SignalAt("fsync", 1, SIGKILL);
  EXPECT_EQ(RunProgram(call).exit_code, -SIGKILL);
  EXPECT_EQ(ReadFile(Output()), "older");
  const std::vector<std::string> names = folder_.Names();
  ASSERT_EQ(names.size(), 3U);
  const std::string leftover =
      *std::ranges::find_if(names, [](const std::string& name) { return name.ends_with(".tmp"); });
  EXPECT_THAT(Expect(0, Arguments(Output())).err, HasSubstr(File(leftover)));
  EXPECT_EQ(folder_.Names().size(), 2U);
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
  WriteFile(File("in.layers03.cact"), "precious");
  ASSERT_EQ(chmod(File("in.layers03.cact").c_str(), 0444), 0);
  EXPECT_THAT(Expect(3, {"ladder", checkpoint, "--depths", "2-3", "--out-dir", folder_.path()}).err,
              HasSubstr("in.layers03.cact"));
  EXPECT_THAT(folder_.Names(), Not(Contains("in.layers02.cact")));
}

TEST_F(CommandTest, LadderMakesItsFolder) {
  const std::string checkpoint = Copy(kOddCheckpoint, "in.safetensors");
  const ProgramResult result =
      Expect(0, {"ladder", checkpoint, "--depths", "2", "--out-dir", File("a/b")});
  EXPECT_THAT(result.err, HasSubstr("made the folder " + File("a/b")));
  EXPECT_TRUE(std::filesystem::exists(File("a/b/in.layers02.cact")));
  EXPECT_THAT(Expect(3, {"ladder", checkpoint, "--depths", "2", "--out-dir", checkpoint}).err,
              HasSubstr(checkpoint));
}

TEST_F(CommandTest, AFolderThatNothingWasWrittenToGoes) {
  ProgramCall call;
  const std::string checkpoint = Copy(kOddCheckpoint, "in.safetensors");
  call.arguments = {"ladder", checkpoint, "--depths", "2", "--out-dir", File("a/b")};
  call.environment = FailAt("pwrite", 1, ENOSPC);
  EXPECT_EQ(RunProgram(call).exit_code, 1);
  EXPECT_THAT(folder_.Names(), ::testing::ElementsAre("in.safetensors"));
  call.environment = SignalAt("pwrite", 1, SIGTERM);
  EXPECT_EQ(RunProgram(call).exit_code, 130);
  EXPECT_THAT(folder_.Names(), ::testing::ElementsAre("in.safetensors"));
}

TEST_F(CommandTest, LadderNamesTheArchivesOfAnEarlierOne) {
  const std::string checkpoint = Copy(kOddCheckpoint, "in.safetensors");
  Expect(0, {"ladder", checkpoint, "--depths", "2-3", "--out-dir", File("d")});
  EXPECT_THAT(Expect(0, {"ladder", checkpoint, "--depths", "2", "--out-dir", File("d")}).err,
              HasSubstr(File("d/in.layers03.cact")));
  const std::vector<std::string> verify = {"verify", "--manifest", File("d/manifest.json")};
  EXPECT_THAT(Expect(0, verify).err, HasSubstr(File("d/in.layers03.cact")));
  std::vector<std::string> strict = verify;
  strict.push_back("--strict");
  EXPECT_THAT(Expect(5, strict).err, HasSubstr(File("d/in.layers03.cact")));
  strict.push_back("--json");
  EXPECT_EQ(Expect(5, strict).Json()["unlisted"].size(), 1U);
}

// GNU's form of SHA256SUMS: a line that starts with a backslash has escapes in its name.
TEST_F(CommandTest, SumsOfAnyNameAreTheFormOfSha256sum) {
  const std::string checkpoint = Copy(kOddCheckpoint, "a\nb\nc.safetensors");
  const std::string newline = Copy(kOddCheckpoint, "a\nb\rc.safetensors");
  for (const std::string& file : {checkpoint, newline}) {
    Expect(0, {"ladder", file, "--depths", "2", "--out-dir", File("d")});
    ProgramCall check;
    check.program = "/usr/bin/sha256sum";
    check.arguments = {"-c", "--strict", "SHA256SUMS"};
    check.folder = File("d");
    const ProgramResult result = RunProgram(check);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    Expect(0, {"verify", "--manifest", File("d/manifest.json")});
  }
}

TEST_F(CommandTest, NamesThatNoManifestCanHoldAreRefusedBeforeAnyWork) {
  const std::string checkpoint = Copy(kOddCheckpoint, "caf\xe9.safetensors");
  const std::string archive = Copy(kOddArchive, "caf\xe9.cact");
  EXPECT_THAT(Expect(2, {"ladder", checkpoint, "--depths", "2", "--out-dir", File("d")}).err,
              HasSubstr("UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(File("d")));
  EXPECT_THAT(Expect(2, {"manifest", archive, "-o", File("m.json")}).err, HasSubstr("UTF-8"));
  EXPECT_FALSE(std::filesystem::exists(File("m.json")));
}

TEST_F(CommandTest, AManifestStandsBesideItsArchives) {
  const std::string archive = Copy(kOddArchive, "in.cact");
  ASSERT_TRUE(std::filesystem::create_directory(File("d")));
  EXPECT_THAT(Expect(2, {"manifest", archive, "-o", File("d/m.json")}).err, HasSubstr(archive));
  EXPECT_TRUE(std::filesystem::is_empty(File("d")));
  ASSERT_EQ(symlink(folder_.path().c_str(), File("d/link").c_str()), 0);
  Expect(0, {"manifest", archive, "-o", File("d/link/m.json")});
  Expect(0, {"verify", "--manifest", File("m.json")});
}

TEST_F(CommandTest, AManifestOfNothingProvesNothing) {
  WriteFile(File("m.json"), R"({"manifest_version": 1, "inputs": [], "archives": []})");
  EXPECT_THAT(Expect(4, {"verify", "--manifest", File("m.json")}).out,
              HasSubstr("lists no archives"));
}

// Two outputs of one command, or an output and what an option reads, under other names as well.
TEST_F(CommandTest, OutputsOfOneCommandAreDistinct) {
  const std::string checkpoint = Copy(kOddCheckpoint, "in.safetensors");
  const std::string archive = Copy(kOddArchive, "in.cact"), data = File("data.jsonl");
  WriteFile(data, "{\"text\": \"x\"}\n");
  const std::string output = File("out");
  for (const std::string& same :
       {output, folder_.path() + "/./out",
        folder_.path() + "/../" + std::filesystem::path(folder_.path()).filename().string() +
            "/out"}) {
    EXPECT_THAT(
        Expect(2, {"build", checkpoint, "--calibrate", data, "--stats", same, "-o", output}).err,
        HasSubstr("same file"));
  }
  const std::vector<std::vector<std::string>> calls = {
      {"build", checkpoint, "--calibrate", data, "-o", data},
      {"requantize", archive, "--bits", "4", "-o", archive},
      {"golden", archive, "-o", archive},
      {"report", archive, "--data", data, "-o", data},
      {"run", archive, "--token-ids", "1", "--logits", archive},
      {"verify", archive, "--golden", archive, "--logits", archive},
  };
  for (const auto& call : calls) {
    const std::string before = ReadFile(data) + ReadFile(archive);
    const ProgramResult result = RunProgram(call);
    EXPECT_NE(result.exit_code, 0) << ::testing::PrintToString(call);
    EXPECT_EQ(ReadFile(data) + ReadFile(archive), before) << ::testing::PrintToString(call);
  }
}

}  // namespace
}  // namespace needle::tests
