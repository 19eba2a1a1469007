// tests/format/broken_archive.h: a good archive with one thing broken.
#ifndef NEEDLE_TESTS_FORMAT_BROKEN_ARCHIVE_H_
#define NEEDLE_TESTS_FORMAT_BROKEN_ARCHIVE_H_

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/endian.h"
#include "gtest/gtest.h"
#include "tests/format/tiny_archive.h"
#include "tests/support/status_matchers.h"

namespace needle::format {

// Offsets of the fields of a directory record, from the specification's table.
inline constexpr size_t kDType = 0;
inline constexpr size_t kNumDims = 1;
inline constexpr size_t kReserved = 2;
inline constexpr size_t kShape = 4;
inline constexpr size_t kOffset = 20;
inline constexpr size_t kNumBytes = 28;
inline constexpr size_t kGroupField = 36;
inline constexpr size_t kBits = 40;

class BrokenArchiveTest : public ::testing::Test {
 protected:
  void Use(std::vector<uint8_t> archive) { good_ = bytes_ = std::move(archive); }
  void SetUp() override { Use(MakeTinyArchive(Generation::kNeedle3)); }

  // Places are looked up in the good archive, so that several things can be broken.
  void SetHeader(std::string_view field, uint32_t value) {
    base::StoreLe(&bytes_[HeaderOffset(good_, field)], value);
  }
  template <typename T>
  void SetRecord(std::string_view tensor, size_t field, T value) {
    base::StoreLe(&bytes_[RecordOffset(good_, tensor) + field], value);
  }
  template <typename T>
  void SetBlob(std::string_view tensor, size_t at, T value) {
    base::StoreLe(&bytes_[BlobOffset(good_, tensor) + at], value);
  }
  Record GoodRecord(std::string_view tensor) const {
    return ParseRecord(std::span(good_).subspan(RecordOffset(good_, tensor)).first<kRecordBytes>());
  }

  // The archive is refused with exactly this message, behind the file's name.
  void ExpectRefused(const std::string& message,
                     absl::StatusCode code = absl::StatusCode::kDataLoss) const {
    EXPECT_OK(Archive::FromBytes(good_, "good.cact"));
    EXPECT_THAT(Archive::FromBytes(bytes_, "a.cact"),
                ::needle::tests::StatusIs(code, "a.cact: " + message));
  }

  std::vector<uint8_t> good_;
  std::vector<uint8_t> bytes_;
};

}  // namespace needle::format

#endif  // NEEDLE_TESTS_FORMAT_BROKEN_ARCHIVE_H_
