// Damage at every place: what is opened is right, or refused in words, at no great cost.
// After F13 of the field cases: mapped files shorter than their directory promises died on first
// touch; sums that wrapped passed the check; counts sized allocations before any check.

#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "base/endian.h"
#include "gtest/gtest.h"
#include "tests/format/broken_archive.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/files.h"

namespace needle::format {
namespace {

using ::needle::tests::AllocatedBytes;
using ::needle::tests::ReadBytes;
using ::needle::tests::StatusIs;
using ::needle::tests::TempFolder;
using ::needle::tests::Testdata;
using ::needle::tests::WriteBytes;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kGolden[] = {"n3-small", "n3-odd", "n3-pad", "n2-small"};

void ExpectRefusedInWords(std::vector<uint8_t> bytes, size_t damaged_at) {
  const auto archive = Archive::FromBytes(std::move(bytes), "a.cact");
  ASSERT_FALSE(archive.ok()) << damaged_at;
  EXPECT_THAT(std::string(archive.status().message()), StartsWith("a.cact: ")) << damaged_at;
}

std::vector<uint8_t> Cut(const std::vector<uint8_t>& bytes, size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

TEST(DamageTest, TinyArchiveCutAtEveryLengthIsRefused) {
  for (const Generation generation : {Generation::kNeedle2, Generation::kNeedle3}) {
    const std::vector<uint8_t> good = MakeTinyArchive(generation);
    for (size_t size = 0; size < good.size(); ++size) ExpectRefusedInWords(Cut(good, size), size);
  }
}

TEST(DamageTest, GoldenArchivesCutAtEveryEdgeAreRefused) {
  for (const char* name : kGolden) {
    const auto good = ReadBytes(Testdata(std::string("golden/") + name + "/cq2.cact"));
    const auto archive = Archive::FromBytes(good, name);
    ASSERT_OK(archive);
    std::set<size_t> sizes = {good.size() - 1};
    for (size_t size = 0; size < 300; ++size) sizes.insert(size);
    for (const Record& record : archive->records()) {
      sizes.insert(record.offset);
      sizes.insert(record.offset + record.num_bytes - 1);
    }
    for (const size_t size : sizes) ExpectRefusedInWords(Cut(good, size), size);
    std::vector<uint8_t> longer = good;
    longer.push_back(0);
    ExpectRefusedInWords(std::move(longer), good.size());
  }
}

// Every field of a record follows from the header, its neighbours and the size of the file.
TEST(DamageTest, EveryFlippedBitOfTheDirectoryIsRefused) {
  for (const Generation generation : {Generation::kNeedle2, Generation::kNeedle3}) {
    const std::vector<uint8_t> good = MakeTinyArchive(generation);
    const size_t end = BlobOffset(good, "embedding");
    for (size_t bit = 8 * RecordOffset(good, "embedding"); bit < 8 * end; ++bit) {
      std::vector<uint8_t> bytes = good;
      bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
      ExpectRefusedInWords(std::move(bytes), bit);
    }
  }
}

// Fields that say nothing about any tensor can hold another value; the archive then has that value.
TEST(DamageTest, EveryFlippedBitOfTheHeaderIsRefusedOrRead) {
  const std::set<std::string_view> free = {"kv_window",
                                           "kv_bits",
                                           "out_vocab",
                                           "max_seq_len",
                                           "sliding_window",
                                           "global_mask_lo",
                                           "engram_conv_dilation",
                                           "engram_seed_heads",
                                           "engram_orders[0]",
                                           "engram_orders[1]",
                                           "rope_theta"};
  for (const Generation generation : {Generation::kNeedle2, Generation::kNeedle3}) {
    const std::vector<uint8_t> good = MakeTinyArchive(generation);
    for (const HeaderField& field : HeaderFields(generation)) {
      for (size_t bit = 8 * field.byte; bit < 8 * field.byte + 32; ++bit) {
        std::vector<uint8_t> bytes = good;
        bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
        const auto archive = Archive::FromBytes(bytes, "a.cact");
        EXPECT_FALSE(archive.ok() && free.count(field.name) == 0) << field.name << " " << bit;
        if (!archive.ok()) continue;
        EXPECT_EQ(SerializeHeader(archive->header()), Cut(bytes, HeaderBytes(generation)));
      }
    }
  }
}

// Numbers that would size an allocation, each as large as its field holds.
TEST(DamageTest, HugeNumbersAllocateNothing) {
  const std::vector<uint8_t> good = MakeTinyArchive(Generation::kNeedle3);
  std::vector<size_t> places;  // of u32 fields
  for (const HeaderField& field : HeaderFields(Generation::kNeedle3)) places.push_back(field.byte);
  for (const char* tensor : {"embedding", "heads.manifest", "embedding_head.probes",
                             "embedding_head.query", "embedding_head.proj", "tokenizer"}) {
    const size_t record = RecordOffset(good, tensor);
    for (const size_t field : {kShape, kShape + 4, kNumBytes, kNumBytes + 4, kGroupField, kBits}) {
      places.push_back(record + field);
    }
  }
  places.push_back(BlobOffset(good, "tokenizer"));  // n_pieces
  // What opening the good archive allocates, and as much again as the file itself for messages.
  const size_t before_good = AllocatedBytes();
  ASSERT_OK(Archive::FromBytes(good, "good"));
  const size_t allowed = (AllocatedBytes() - before_good) + good.size();
  for (const size_t place : places) {
    for (const uint32_t value : {UINT32_MAX, 0x7FFFFFFFU, 0x10000U}) {
      std::vector<uint8_t> bytes = good;
      base::StoreLe(&bytes[place], value);
      const size_t before = AllocatedBytes();
      static_cast<void>(Archive::FromBytes(std::move(bytes), "a.cact"));
      EXPECT_LE(AllocatedBytes() - before, allowed) << place << " " << value;
    }
  }
}

TEST(DamageTest, MappedFilesAreCheckedLikeBytes) {
  const TempFolder temp;
  const auto good = ReadBytes(Testdata("golden/n3-pad/cq2.cact"));
  for (const size_t size : {size_t{0}, size_t{195}, size_t{4096}, good.size() - 1}) {
    WriteBytes(temp.File("a.cact"), Cut(good, size));
    EXPECT_THAT(Archive::Open(temp.File("a.cact")),
                StatusIs(absl::StatusCode::kDataLoss, StartsWith(temp.File("a.cact") + ": ")));
  }
}

TEST(DamageTest, WhatIsNoRegularFileIsRefused) {
  const TempFolder temp;
  EXPECT_THAT(Archive::Open(temp.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(temp.File("none"))));
  EXPECT_THAT(Archive::Open(temp.path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(temp.path())));
  ASSERT_EQ(mkfifo(temp.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(Archive::Open(temp.File("fifo")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(temp.File("fifo"))));
}

}  // namespace
}  // namespace needle::format
