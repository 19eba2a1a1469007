// Field case F07: legal but odd .safetensors files, and files that are none.
#include <string>

#include "converter/safetensors_file.h"
#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_checkpoint.h"

namespace needle::converter {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::BuildArchive;
using tests::ReadFile;
using tests::StatusIs;
using tests::TempFolder;
using tests::TestCheckpoint;
using tests::Testdata;

absl::StatusOr<SafetensorsHeader> Parse(const std::string& file) {
  return ParseSafetensors({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
}
absl::StatusOr<SafetensorsHeader> Parse(const std::string& header, size_t data_bytes) {
  return Parse(TestCheckpoint::Assemble(header, std::string(data_bytes, '\0')));
}
auto Refuses(const std::string& text) {
  return StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text));
}

TEST(SafetensorsTest, HeaderOfAnyLengthAndDataInAnyOrderGiveTheSameArchive) {
  const TempFolder folder;
  const TestCheckpoint checkpoint = TestCheckpoint::Load(tests::kPadCheckpoint);
  ASSERT_OK(BuildArchive(Testdata(tests::kPadCheckpoint), folder.File("want.cact")));
  const std::string want = ReadFile(folder.File("want.cact"));
  for (size_t padding = 0; padding < 8; ++padding) {
    checkpoint.Write(folder.File("odd.safetensors"),
                     {.padding = padding, .reversed = padding % 2 == 1});
    ASSERT_OK(BuildArchive(folder.File("odd.safetensors"), folder.File("got.cact")));
    EXPECT_TRUE(ReadFile(folder.File("got.cact")) == want) << padding;
  }
}

TEST(SafetensorsTest, UnusedEmptyTensorIsNamedInAWarningOnly) {
  const TempFolder folder;
  TestCheckpoint checkpoint = TestCheckpoint::Load(tests::kPadCheckpoint);
  checkpoint.tensors["nothing"] = {"F32", {0}, ""};
  checkpoint.Write(folder.File("c.safetensors"));
  const auto report = BuildArchive(folder.File("c.safetensors"), folder.File("c.cact"));
  ASSERT_OK(report);
  ASSERT_EQ(report->warnings.size(), 1U);
  EXPECT_THAT(report->warnings[0], HasSubstr("\"nothing\""));
}

TEST(SafetensorsTest, LengthsThatCannotBeAreRefused) {
  EXPECT_THAT(Parse(""), Refuses("0 bytes"));
  EXPECT_THAT(Parse("1234567"), Refuses("7 bytes"));
  for (const uint64_t length :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1} << 63, UINT64_MAX}) {
    std::string file;
    TestCheckpoint::Append(file, length);
    EXPECT_THAT(Parse(file + "{}"), Refuses("header length " + std::to_string(length)));
  }
  // A header that would take all but seven bytes of the file, its own length among them.
  std::string file = TestCheckpoint::Load(tests::kPadCheckpoint).Serialize({});
  base::StoreLe(file.data(), uint64_t{file.size() - 7});
  EXPECT_THAT(Parse(file), Refuses("header length"));
}

TEST(SafetensorsTest, GitLfsPointerIsNamed) {
  EXPECT_THAT(Parse("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
              Refuses("Git LFS"));
}

TEST(SafetensorsTest, FileCutAtHalfNamesATensor) {
  const std::string file = TestCheckpoint::Load(tests::kPadCheckpoint).Serialize({});
  EXPECT_THAT(Parse(file.substr(0, file.size() / 2)), Refuses("cut short"));
}

TEST(SafetensorsTest, RangesMustCoverTheDataOnce) {
  const auto two = [](const std::string& a, const std::string& b, size_t data) {
    return Parse(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + a +
                     R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + b + "}}",
                 data);
  };
  EXPECT_OK(two("[0,8]", "[8,16]", 16));
  EXPECT_OK(two("[8,16]", "[0,8]", 16));
  EXPECT_THAT(two("[0,8]", "[0,8]", 8), Refuses("overlap"));
  EXPECT_THAT(two("[0,8]", "[4,12]", 12), Refuses("overlap"));
  EXPECT_THAT(two("[0,8]", "[12,20]", 20), Refuses("belong to no tensor"));
  EXPECT_THAT(two("[4,12]", "[12,20]", 20), Refuses("belong to no tensor"));
  EXPECT_THAT(two("[0,8]", "[16,8]", 16), Refuses("begin <= end"));
  EXPECT_THAT(two("[0,8]", "[8,24]", 16), Refuses("cut short"));
  EXPECT_THAT(two("[0,8]", "[8,16]", 17), Refuses("1 bytes behind"));
  EXPECT_THAT(two("[0,8]", "[8,12]", 12), Refuses("4 bytes, want 8"));
  EXPECT_THAT(two("[0,8]", "[-8,16]", 16), Refuses("whole numbers"));
  EXPECT_THAT(two("[0,8]", "[8,16.0]", 16), Refuses("whole numbers"));
  EXPECT_THAT(two("[0,8]", "[8]", 16), Refuses("[begin, end]"));
}

TEST(SafetensorsTest, EntriesThatCannotBeAreRefused) {
  const auto one = [](const std::string& entry) { return Parse("{\"a\":" + entry + "}", 8); };
  EXPECT_THAT(one("[]"), Refuses("\"a\""));
  EXPECT_THAT(one(R"({"dtype":"F4","shape":[8],"data_offsets":[0,8]})"), Refuses("dtype F4"));
  EXPECT_THAT(one(R"({"shape":[8],"data_offsets":[0,8]})"), Refuses("dtype"));
  EXPECT_THAT(one(R"({"dtype":"F8_E4M3","shape":[8],"data_offsets":[1000,9000]})"),
              Refuses("cut short"));
  EXPECT_THAT(one(R"({"dtype":"F8_E4M3","shape":[9],"data_offsets":[0,8]})"), Refuses("want 9"));
  EXPECT_OK(one(R"({"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]})"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]})"),
              Refuses("more than 2^64"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,8]})"),
              Refuses("more than 2^64"));
  EXPECT_THAT(Parse(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                    R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                    8),
              Refuses("given twice"));
  EXPECT_THAT(Parse("[1]", 0), Refuses("not an object"));
  EXPECT_THAT(Parse("{]", 0), Refuses("header"));
  EXPECT_THAT(Parse(R"({"__metadata__":{"a":1}})", 0), Refuses("not a string"));
}

TEST(SafetensorsTest, OtherFormatVersionsAreRefused) {
  const TempFolder folder;
  TestCheckpoint checkpoint = TestCheckpoint::Load(tests::kPadCheckpoint);
  for (const char* version : {"1", "3", "\"2\"", "2.5"}) {
    checkpoint.metadata["format_version"] = version;
    checkpoint.Write(folder.File("c.safetensors"));
    EXPECT_THAT(Checkpoint::Open(folder.File("c.safetensors")), Refuses("format_version"));
  }
  checkpoint.metadata.erase("format_version");
  checkpoint.Write(folder.File("c.safetensors"));
  EXPECT_THAT(Checkpoint::Open(folder.File("c.safetensors")), Refuses("format_version is missing"));
}

TEST(SafetensorsTest, ConfigMustBeAnObject) {
  const TempFolder folder;
  TestCheckpoint checkpoint = TestCheckpoint::Load(tests::kPadCheckpoint);
  checkpoint.metadata["config"] = "[1]";
  checkpoint.Write(folder.File("c.safetensors"));
  EXPECT_THAT(Checkpoint::Open(folder.File("c.safetensors")), Refuses("config"));
  checkpoint.metadata["config"] = "{";
  checkpoint.Write(folder.File("c.safetensors"));
  EXPECT_THAT(Checkpoint::Open(folder.File("c.safetensors")), Refuses("metadata \"config\""));
  checkpoint.metadata.erase("config");
  checkpoint.Write(folder.File("c.safetensors"));
  EXPECT_THAT(Checkpoint::Open(folder.File("c.safetensors")), Refuses("config is missing"));
}

}  // namespace
}  // namespace needle::converter
