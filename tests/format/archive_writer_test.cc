#include "format/archive_writer.h"

#include <thread>
#include <vector>

#include "format/archive.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::format {
namespace {

using ::needle::tests::ReadBytes;
using ::needle::tests::StatusIs;
using ::needle::tests::TempFolder;
using ::needle::tests::Testdata;
using ::testing::HasSubstr;

class ArchiveWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto archive = Archive::Open(Testdata("golden/n3-small/cq2.cact"));
    ASSERT_OK(archive);
    archive_ = std::make_unique<Archive>(*std::move(archive));
  }

  ArchiveLayout Layout() const {
    return {archive_->header(), archive_->schema(), archive_->records(), archive_->bytes().size()};
  }
  absl::StatusOr<ArchiveWriter> Writer() const {
    return ArchiveWriter::Create(temp_.File("out.cact"), Layout(), archive_->codebooks());
  }

  TempFolder temp_;
  std::unique_ptr<Archive> archive_;
};

TEST_F(ArchiveWriterTest, BlobsInAnyOrderGiveTheReferencesBytes) {
  auto writer = Writer();
  ASSERT_OK(writer);
  for (size_t i = archive_->records().size(); i-- > 0;) {
    ASSERT_OK(writer->WriteBlob(i, archive_->Blob(i)));
  }
  ASSERT_OK(writer->Finish());
  EXPECT_EQ(ReadBytes(temp_.File("out.cact")), ReadBytes(archive_->path()));
  EXPECT_EQ(temp_.Names(), std::vector<std::string>{"out.cact"});
}

TEST_F(ArchiveWriterTest, PartsFromSeveralThreadsGiveTheReferencesBytes) {
  auto writer = Writer();
  ASSERT_OK(writer);
  constexpr size_t kThreads = 3;
  constexpr size_t kPart = 1000;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < archive_->records().size(); ++i) {
        const auto blob = archive_->Blob(i);
        for (size_t at = thread * kPart; at < blob.size(); at += kThreads * kPart) {
          EXPECT_OK(
              writer->WriteBlobPart(i, at, blob.subspan(at, std::min(kPart, blob.size() - at))));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(writer->Finish());
  EXPECT_EQ(ReadBytes(temp_.File("out.cact")), ReadBytes(archive_->path()));
}

TEST_F(ArchiveWriterTest, DoesNotFinishWithABlobMissing) {
  {
    auto writer = Writer();
    ASSERT_OK(writer);
    for (size_t i = 1; i < archive_->records().size(); ++i) {
      ASSERT_OK(writer->WriteBlob(i, archive_->Blob(i)));
    }
    EXPECT_THAT(writer->Finish(),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("record 0 (embedding): 0 bytes written, want")));
  }
  EXPECT_TRUE(temp_.Names().empty());
}

TEST_F(ArchiveWriterTest, DoesNotFinishWithABlobWrittenTwice) {
  auto writer = Writer();
  ASSERT_OK(writer);
  for (size_t i = 0; i < archive_->records().size(); ++i) {
    ASSERT_OK(writer->WriteBlob(i, archive_->Blob(i)));
  }
  ASSERT_OK(writer->WriteBlob(1, archive_->Blob(1)));
  EXPECT_THAT(writer->Finish(), StatusIs(absl::StatusCode::kInternal,
                                         HasSubstr("record 1 (layer00.norm_in): 1024 bytes")));
}

TEST_F(ArchiveWriterTest, RefusesABlobOfAnotherSize) {
  auto writer = Writer();
  ASSERT_OK(writer);
  const auto blob = archive_->Blob(1);
  EXPECT_THAT(writer->WriteBlob(1, blob.first(510)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("510 bytes written, want 512")));
  EXPECT_THAT(writer->WriteBlobPart(1, 4, blob),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("want 512")));
}

TEST_F(ArchiveWriterTest, RefusesCodebooksOfAnotherLength) {
  EXPECT_THAT(ArchiveWriter::Create(temp_.File("out"), Layout(), archive_->codebooks().first(27)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("27 codebook values, want 28")));
  EXPECT_TRUE(temp_.Names().empty());
}

TEST_F(ArchiveWriterTest, RefusesAFolderThatDoesNotExist) {
  EXPECT_THAT(ArchiveWriter::Create(temp_.File("none/out"), Layout(), archive_->codebooks()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

}  // namespace
}  // namespace needle::format
