#include "base/atomic_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/removal_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::base {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::ReadFile;
using tests::TempFolder;
using tests::WriteFile;

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(AtomicFileTest, CommitPutsTheBytesUnderTheTargetName) {
  const TempFolder folder;
  const std::string target = folder.File("out.bin");
  auto file = AtomicFile::Create(target);
  ASSERT_OK(file.status());
  ASSERT_OK(file->Append(Bytes("abc")));
  EXPECT_FALSE(std::filesystem::exists(target));
  ASSERT_OK(file->WriteAt(5, Bytes("z")));
  ASSERT_OK(file->Resize(8));
  ASSERT_OK(file->Commit());
  EXPECT_EQ(ReadFile(target), std::string("abc\0\0z\0\0", 8));
  EXPECT_THAT(folder.Names(), ::testing::ElementsAre("out.bin"));
}

TEST(AtomicFileTest, WithoutCommitTheOlderFileStaysAndNothingElse) {
  const TempFolder folder;
  const std::string target = folder.File("out.bin");
  WriteFile(target, "older");
  {
    auto file = AtomicFile::Create(target);
    ASSERT_OK(file.status());
    ASSERT_OK(file->Append(Bytes("newer")));
  }
  EXPECT_EQ(ReadFile(target), "older");
  EXPECT_THAT(folder.Names(), ::testing::ElementsAre("out.bin"));
}

TEST(AtomicFileTest, RemovingWhatIsRememberedLeavesTheTarget) {
  const TempFolder folder;
  const std::string target = folder.File("out.bin");
  WriteFile(target, "older");
  auto file = AtomicFile::Create(target);
  ASSERT_OK(file.status());
  RemoveRemembered();
  EXPECT_THAT(folder.Names(), ::testing::ElementsAre("out.bin"));
}

TEST(AtomicFileTest, RefusesTheInputAlsoThroughLinks) {
  const TempFolder folder;
  const std::string input = folder.File("in.bin");
  WriteFile(input, "input");
  const std::string soft = folder.File("soft");
  const std::string hard = folder.File("hard");
  std::filesystem::create_symlink(input, soft);
  std::filesystem::create_hard_link(input, hard);
  const std::vector<std::string> inputs = {input};
  for (const std::string& target : {input, soft, hard}) {
    const absl::Status status = AtomicFile::CheckTarget(target, inputs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << target;
    EXPECT_THAT(std::string(status.message()), HasSubstr(input)) << target;
  }
  EXPECT_OK(AtomicFile::CheckTarget(folder.File("other"), inputs));
}

TEST(AtomicFileTest, WritesThroughASymbolicLink) {
  const TempFolder folder;
  const std::string real = folder.File("real");
  const std::string link = folder.File("link");
  WriteFile(real, "older");
  std::filesystem::create_symlink(real, link);
  auto file = AtomicFile::Create(link);
  ASSERT_OK(file.status());
  ASSERT_OK(file->Append(Bytes("newer")));
  ASSERT_OK(file->Commit());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(ReadFile(real), "newer");
}

TEST(AtomicFileTest, RefusesWhatCannotBeWrittenBeforeAnyWork) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.File("sub"));
  WriteFile(folder.File("plain"), "x");
  WriteFile(folder.File("frozen"), "x");
  chmod(folder.File("frozen").c_str(), 0444);
  std::filesystem::create_symlink(folder.File("nowhere"), folder.File("dangling"));
  const struct {
    std::string target;
    absl::StatusCode code;
  } kCases[] = {
      {"", absl::StatusCode::kInvalidArgument},
      {folder.File("missing/out"), absl::StatusCode::kNotFound},
      {folder.File("plain/out"), absl::StatusCode::kNotFound},
      {folder.File("sub"), absl::StatusCode::kInvalidArgument},
      {folder.File("sub/"), absl::StatusCode::kInvalidArgument},
      {folder.File("frozen"), absl::StatusCode::kFailedPrecondition},
      {folder.File("dangling"), absl::StatusCode::kNotFound},
      {"/dev/full", absl::StatusCode::kInvalidArgument},
  };
  for (const auto& test : kCases) {
    const absl::Status status = AtomicFile::CheckTarget(test.target, {});
    EXPECT_EQ(status.code(), test.code) << test.target << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.target));
    EXPECT_EQ(AtomicFile::Create(test.target).status().code(), test.code) << test.target;
  }
}

TEST(MappedFileTest, MapsTheWholeFileAndKeepsItWhenMoved) {
  const TempFolder folder;
  WriteFile(folder.File("a"), "hello");
  auto file = MappedFile::Open(folder.File("a"));
  ASSERT_OK(file.status());
  const MappedFile moved = *std::move(file);
  EXPECT_EQ(std::string(moved.bytes().begin(), moved.bytes().end()), "hello");
  moved.WillNeed(0, 5);
  moved.WillNeed(100, UINT64_MAX);
}

TEST(MappedFileTest, NamesWhatIsNoRegularFile) {
  const TempFolder folder;
  WriteFile(folder.File("empty"), "");
  ASSERT_EQ(mkfifo(folder.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::Open(folder.File("empty"))->bytes(), IsEmpty());
  EXPECT_EQ(MappedFile::Open(folder.File("fifo")).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::Open(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::Open(folder.File("empty") + std::string("\0x", 2)).status().code(),
            absl::StatusCode::kNotFound);
  const absl::Status missing = MappedFile::Open(folder.File("missing")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(folder.File("missing")));
}

}  // namespace
}  // namespace needle::base
