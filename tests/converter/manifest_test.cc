#include "converter/manifest.h"

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/sha256.h"
#include "converter/manifest_check.h"
#include "format/archive.h"
#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using base::Json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::ReadBytes;
using tests::ReadFile;
using tests::StatusIs;
using tests::TempFolder;
using tests::Testdata;

class ManifestTest : public ::testing::Test {
 protected:
  ManifestTest() {
    unsetenv("SOURCE_DATE_EPOCH");
    const auto report = tests::BuildArchive(input_, archive());
    EXPECT_OK(report);
    request_ = {.tool_version = "1.2.3",
                .options = {{"bits_map", "default=2"}},
                .inputs = {input_},
                .archives = {{archive(), report->tensors}}};
  }
  ~ManifestTest() override { unsetenv("SOURCE_DATE_EPOCH"); }

  std::string archive() const { return folder_.File("model.cact"); }
  std::string path() const { return folder_.File("manifest.json"); }
  void Write() {
    const auto manifest = MakeManifest(request_);
    ASSERT_OK(manifest);
    ASSERT_OK(WriteManifest(*manifest, path()));
  }

  TempFolder folder_;
  std::string input_ = Testdata("golden/n3-pad/checkpoint.safetensors");
  ManifestRequest request_;
};

TEST_F(ManifestTest, SaysWhatWentInAndWhatCameOut) {
  const auto made = MakeManifest(request_);
  ASSERT_OK(made);
  const Json& manifest = *made;
  EXPECT_EQ(manifest["manifest_version"], 1);
  EXPECT_EQ(manifest["tool"]["version"], "1.2.3");
  EXPECT_FALSE(manifest.contains("created"));
  EXPECT_EQ(manifest["options"]["bits_map"], "default=2");
  // As testdata/README.md has it.
  EXPECT_EQ(manifest["inputs"][0]["sha256"], base::Sha256Hex(ReadBytes(input_)));
  EXPECT_EQ(manifest["inputs"][0]["file"], "checkpoint.safetensors");
  const Json& described = manifest["archives"][0];
  EXPECT_EQ(described["file"], "model.cact");
  EXPECT_EQ(described["bytes"], std::filesystem::file_size(archive()));
  EXPECT_EQ(described["sha256"], base::Sha256Hex(ReadBytes(archive())));
  const auto opened = format::Archive::Open(archive());
  ASSERT_OK(opened);
  ASSERT_EQ(described["tensors"].size(), opened->records().size());
  EXPECT_EQ(described["tensors"][0]["name"], "embedding");
  EXPECT_EQ(described["tensors"][0]["width"], "4");
  EXPECT_EQ(described["tensors"][0]["sha256"], base::Sha256Hex(opened->Blob(0)));
  EXPECT_EQ(described["tensors"][0]["nmse"], request_.archives[0].tensors[0].stats.RelativeError());
  EXPECT_FALSE(described["tensors"][1].contains("width"));  // norm_in is FP16
}

TEST_F(ManifestTest, IsTheSameEachTime) {
  const auto a = MakeManifest(request_);
  const auto b = MakeManifest(request_);
  ASSERT_OK(a);
  EXPECT_EQ(a->dump(), b->dump());
}

TEST_F(ManifestTest, TimeComesFromTheEnvironmentOnly) {
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  const auto manifest = MakeManifest(request_);
  ASSERT_OK(manifest);
  EXPECT_EQ((*manifest)["created"], "2023-11-14T22:13:20Z");
  setenv("SOURCE_DATE_EPOCH", "yesterday", 1);
  EXPECT_THAT(MakeManifest(request_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("yesterday")));
}

TEST_F(ManifestTest, VerifiesWhatItDescribes) {
  Write();
  auto check = VerifyManifest(path());
  ASSERT_OK(check);
  EXPECT_THAT(check->differences, IsEmpty());
  EXPECT_EQ(check->archives, 1U);
  EXPECT_GT(check->tensors, 50U);
  EXPECT_EQ(check->inputs, 0U);
  EXPECT_EQ(check->inputs_missing, 1U);
  std::filesystem::copy_file(input_, folder_.File("checkpoint.safetensors"));
  check = VerifyManifest(path());
  ASSERT_OK(check);
  EXPECT_THAT(check->differences, IsEmpty());
  EXPECT_EQ(check->inputs, 1U);
}

TEST_F(ManifestTest, OneFlippedBitIsFoundAndItsTensorNamed) {
  Write();
  const auto opened = format::Archive::Open(archive());
  ASSERT_OK(opened);
  const size_t position = *opened->schema().FindName("layer02.k_proj");
  const uint64_t offset = opened->records()[position].offset;
  std::string bytes = ReadFile(archive());
  bytes[offset + 5] = static_cast<char>(bytes[offset + 5] ^ 1);
  std::filesystem::remove(archive());
  tests::WriteFile(archive(), bytes);
  const auto check = VerifyManifest(path());
  ASSERT_OK(check);
  EXPECT_THAT(check->differences,
              ElementsAre(HasSubstr("model.cact: sha256"),
                          AllOf(HasSubstr("layer02.k_proj"), HasSubstr("sha256"))));
}

TEST_F(ManifestTest, MissingOrBrokenArchiveIsADifference) {
  Write();
  tests::WriteFile(archive(), "broken");
  auto check = VerifyManifest(path());
  ASSERT_OK(check);
  EXPECT_THAT(check->differences, ElementsAre(HasSubstr("model.cact")));
  std::filesystem::remove(archive());
  check = VerifyManifest(path());
  ASSERT_OK(check);
  EXPECT_THAT(check->differences, ElementsAre(HasSubstr("model.cact")));
}

TEST_F(ManifestTest, FilesThatAreNoManifestAreRefused) {
  for (const char* text :
       {"", "{}", "[]", "{\"manifest_version\":2,\"inputs\":[],\"archives\":[]}",
        "{\"manifest_version\":1,\"inputs\":[],\"archives\":[{\"file\":\"../x\"}]}",
        "{\"manifest_version\":1,\"inputs\":[{}],\"archives\":[]}"}) {
    tests::WriteFile(path(), text);
    EXPECT_EQ(VerifyManifest(path()).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

TEST_F(ManifestTest, TwoArchivesOfOneNameAreRefused) {
  request_.archives.push_back(request_.archives[0]);
  EXPECT_THAT(MakeManifest(request_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model.cact")));
}

}  // namespace
}  // namespace needle::converter
