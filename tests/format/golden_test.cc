// The reference's archives, read and written again.

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "format/archive.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::format {
namespace {

using ::needle::tests::ReadFile;
using ::needle::tests::Testdata;

// Every .cact below testdata/golden and testdata/fixture, relative to testdata.
std::vector<std::string> GoldenArchives() {
  std::vector<std::string> names;
  for (const char* folder : {"golden", "fixture"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Testdata(folder))) {
      if (entry.path().extension() != ".cact") continue;
      names.push_back(std::filesystem::relative(entry.path(), Testdata("")).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class GoldenArchiveTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto archive = Archive::Open(Testdata(GetParam()));
    ASSERT_OK(archive);
    archive_ = std::make_unique<Archive>(*std::move(archive));
  }

  std::unique_ptr<Archive> archive_;
};

TEST_P(GoldenArchiveTest, HeaderSerializesToItsOwnBytes) {
  const std::vector<uint8_t> header = SerializeHeader(archive_->header());
  const auto file = archive_->bytes().first(header.size());
  EXPECT_EQ(header, std::vector<uint8_t>(file.begin(), file.end()));
}

TEST_P(GoldenArchiveTest, RecordsSerializeToTheirOwnBytes) {
  const uint64_t end = DirectoryEnd(archive_->header());
  const uint64_t start = end - archive_->records().size() * kRecordBytes;
  for (size_t i = 0; i < archive_->records().size(); ++i) {
    std::vector<uint8_t> bytes(kRecordBytes);
    SerializeRecord(archive_->records()[i], std::span<uint8_t, kRecordBytes>(bytes));
    const auto file = archive_->bytes().subspan(start + i * kRecordBytes, kRecordBytes);
    EXPECT_EQ(bytes, std::vector<uint8_t>(file.begin(), file.end())) << i;
  }
}

TEST_P(GoldenArchiveTest, LayoutPredictsEveryRecord) {
  std::vector<Width> widths;
  for (const Record& record : archive_->records()) {
    widths.push_back(WidthFromRecordBits(record.bits).value_or(Width::kCq2));
  }
  const auto tokenizer = archive_->Tokenizer();
  const auto layout = ArchiveLayout::Make(archive_->geometry(), archive_->schema(), widths,
                                          tokenizer ? tokenizer->size() : 0);
  ASSERT_OK(layout);
  EXPECT_EQ(layout->records, archive_->records());
  EXPECT_EQ(layout->file_bytes, archive_->bytes().size());
}

INSTANTIATE_TEST_SUITE_P(All, GoldenArchiveTest, ::testing::ValuesIn(GoldenArchives()),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

TEST(GoldenNamesTest, SchemaHasTheReferenceNamesInFileOrder) {
  for (const char* name : {"n3-small", "n3-odd", "n3-pad", "n2-small"}) {
    const std::string folder = Testdata(std::string("golden/") + name);
    const auto names = base::ParseJson(ReadFile(folder + "/tensors.json"));
    ASSERT_OK(names);
    const auto archive = Archive::Open(folder + "/cq2.cact");
    ASSERT_OK(archive);
    std::vector<std::string> found;
    for (const TensorSpec& spec : archive->schema().tensors()) found.push_back(spec.name);
    EXPECT_EQ(found, names->get<std::vector<std::string>>()) << name;
  }
}

}  // namespace
}  // namespace needle::format
