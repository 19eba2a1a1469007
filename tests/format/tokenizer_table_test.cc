#include "format/tokenizer_table.h"

#include <limits>
#include <string>
#include <vector>

#include "base/endian.h"
#include "gtest/gtest.h"
#include "tests/format/tiny_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::format {
namespace {

using ::needle::tests::ReadBytes;
using ::needle::tests::StatusIs;
using ::needle::tests::Testdata;

constexpr uint32_t kVocab = 8;
constexpr size_t kHeaderBytes = 24;
constexpr size_t kPieceBytes = 7;  // without its text

class TokenizerTableTest : public ::testing::Test {
 protected:
  void SetUp() override { bytes_ = *TinyTokenizer().Serialize(); }

  template <typename T>
  void Set(size_t at, T value) {
    base::StoreLe(&bytes_[at], value);
  }
  // Where the record of a piece starts.
  static size_t PieceOffset(size_t id) {
    const TokenizerTable table = TinyTokenizer();
    size_t offset = kHeaderBytes;
    for (size_t i = 0; i < id; ++i) offset += kPieceBytes + table.pieces[i].text.size();
    return offset;
  }
  void ExpectRefused(const std::string& message) const {
    EXPECT_THAT(TokenizerTable::Parse(bytes_, kVocab),
                StatusIs(absl::StatusCode::kDataLoss, message));
  }
  void ExpectRefused(const TokenizerTable& table, const std::string& message) const {
    EXPECT_THAT(TokenizerTable::Parse(*table.Serialize(), 1000),
                StatusIs(absl::StatusCode::kDataLoss, message));
  }

  std::vector<uint8_t> bytes_;
};

// The tiny table with the 256 byte pieces.
TokenizerTable WithBytePieces() {
  TokenizerTable table = TinyTokenizer();
  table.byte_fallback = true;
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(byte));
    table.pieces.push_back({text, 0, PieceType::kByte});
  }
  return table;
}

TEST_F(TokenizerTableTest, WritesTheSpecificationsBytes) {
  TokenizerTable table;
  table.pad_id = 0;
  table.eos_id = 1;
  table.bos_id = 1;
  table.unk_id = 0;
  table.add_dummy_prefix = true;
  table.pieces = {{"ab", -2, PieceType::kUserDefined}, {"", 1, PieceType::kControl}};
  const auto bytes = table.Serialize();
  ASSERT_OK(bytes);
  const std::vector<uint8_t> wanted = {2, 0, 0,    0,    0, 0, 0, 0,   1,   0, 0, 0,
                                       1, 0, 0,    0,    0, 0, 0, 0,   1,   0, 0, 0,  // header
                                       0, 0, 0,    0xC0, 3, 2, 0, 'a', 'b',  // -2.0f, type, length
                                       0, 0, 0x80, 0x3F, 2, 0, 0};
  EXPECT_EQ(*bytes, wanted);
}

TEST_F(TokenizerTableTest, GoldenAttachmentsComeOutAsTheyWentIn) {
  for (const char* name : {"bpe", "bpe-dummy-prefix"}) {
    const auto bytes = ReadBytes(Testdata(std::string("tokenizer/") + name + ".attachment"));
    const auto table = TokenizerTable::Parse(bytes, 8192);
    ASSERT_OK(table);
    const auto written = table->Serialize();
    ASSERT_OK(written);
    EXPECT_EQ(*written, bytes) << name;
    EXPECT_EQ(table->add_dummy_prefix, std::string(name) == "bpe-dummy-prefix");
    EXPECT_TRUE(table->byte_fallback);
  }
}

TEST_F(TokenizerTableTest, GoldenAttachmentHasTheMarkersFromId4On) {
  const auto bytes = ReadBytes(Testdata("tokenizer/bpe.attachment"));
  const auto table = TokenizerTable::Parse(bytes, 8192);
  ASSERT_OK(table);
  size_t id = 4;
  for (const std::string_view marker : ChatMarkers(Generation::kNeedle3)) {
    EXPECT_EQ(table->pieces[id].text, marker);
    EXPECT_EQ(table->pieces[id].type, PieceType::kUserDefined);
    ++id;
  }
  EXPECT_EQ(ChatMarkers(Generation::kNeedle3).size(), 16U);
  EXPECT_EQ(ChatMarkers(Generation::kNeedle2).size(), 10U);
}

TEST_F(TokenizerTableTest, AcceptsFewerPiecesThanVocab) {
  EXPECT_OK(TokenizerTable::Parse(bytes_, 6));
  EXPECT_OK(TokenizerTable::Parse(bytes_, 100));
}

TEST_F(TokenizerTableTest, RejectsMorePiecesThanVocab) {
  EXPECT_THAT(TokenizerTable::Parse(bytes_, 5),
              StatusIs(absl::StatusCode::kDataLoss, "n_pieces: 6, want at most vocab, 5"));
}

TEST_F(TokenizerTableTest, RejectsEveryTruncation) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    EXPECT_FALSE(TokenizerTable::Parse(std::span(bytes_).first(size), kVocab).ok()) << size;
  }
}

TEST_F(TokenizerTableTest, RejectsATruncatedHeader) {
  bytes_.resize(23);
  ExpectRefused("size: 23, want at least 24 bytes");
}

TEST_F(TokenizerTableTest, RejectsMorePiecesThanTheBytesHold) {
  Set(0, UINT32_MAX);
  EXPECT_THAT(TokenizerTable::Parse(bytes_, UINT32_MAX),
              StatusIs(absl::StatusCode::kDataLoss,
                       "n_pieces: 4294967295, want at most 9, as many as the bytes have room for"));
}

TEST_F(TokenizerTableTest, RejectsATruncatedRecord) {
  bytes_.resize(PieceOffset(5) + 6);
  ExpectRefused("piece 5: 6 bytes left, want at least 7 for a piece");
}

TEST_F(TokenizerTableTest, RejectsATextPastTheEnd) {
  Set(PieceOffset(5) + 5, uint16_t{4});
  ExpectRefused("piece 5: length 4, want at most 3, the bytes left");
}

TEST_F(TokenizerTableTest, RejectsTrailingBytes) {
  bytes_.push_back(0);
  ExpectRefused("size: " + std::to_string(bytes_.size()) + ", want " +
                std::to_string(bytes_.size() - 1) + ", the end of the last piece");
}

TEST_F(TokenizerTableTest, RejectsIdsFromNPiecesOn) {
  const std::pair<const char*, size_t> ids[] = {
      {"pad_id", 4}, {"eos_id", 8}, {"bos_id", 12}, {"unk_id", 16}};
  for (const auto& [name, offset] : ids) {
    SetUp();
    Set(offset, uint32_t{6});
    ExpectRefused(std::string(name) + ": 6, want below n_pieces, 6");
  }
}

TEST_F(TokenizerTableTest, RejectsATableWithoutPieces) {
  bytes_.resize(kHeaderBytes);
  Set(0, uint32_t{0});
  ExpectRefused("pad_id: 0, want below n_pieces, 0");
}

TEST_F(TokenizerTableTest, RejectsFlagsOtherThan0And1) {
  Set(20, uint8_t{2});
  ExpectRefused("add_dummy_prefix: 2, want 0 or 1");
  SetUp();
  Set(21, uint8_t{255});
  ExpectRefused("byte_fallback: 255, want 0 or 1");
  SetUp();
  Set(22, uint16_t{256});
  ExpectRefused("bytes 22 and 23: 256, want 0");
}

TEST_F(TokenizerTableTest, RejectsAnUnknownType) {
  Set(PieceOffset(4) + 4, uint8_t{5});
  ExpectRefused("piece 4: type 5, want 0 to 4");
}

TEST_F(TokenizerTableTest, RejectsAScoreThatIsNoNumber) {
  Set(PieceOffset(4), std::numeric_limits<float>::quiet_NaN());
  ExpectRefused("piece 4: score is NaN, want a number");
}

TEST_F(TokenizerTableTest, RejectsInvalidUtf8InANormalPiece) {
  TokenizerTable table = TinyTokenizer();
  for (const char* text : {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xE2\x96", "a\x80"}) {
    table.pieces[4].text = text;
    ExpectRefused(table, "piece 4: invalid UTF-8, want valid UTF-8 in a normal piece");
  }
  table.pieces[4].type = PieceType::kControl;
  EXPECT_OK(TokenizerTable::Parse(*table.Serialize(), kVocab));
}

TEST_F(TokenizerTableTest, RejectsAnEmptyUserDefinedPiece) {
  TokenizerTable table = TinyTokenizer();
  table.pieces[4] = {"", 0, PieceType::kUserDefined};
  ExpectRefused(table, "piece 4: length 0, want at least 1 in a user-defined piece");
}

TEST_F(TokenizerTableTest, RejectsBytePiecesOfAnotherForm) {
  TokenizerTable table = TinyTokenizer();
  for (const char* text : {"", "<0x0a>", "<0x0>", "<0x0AA>", "0x0A", "<0x0G>"}) {
    table.pieces[4] = {text, 0, PieceType::kByte};
    ExpectRefused(table, std::string("piece 4: ") + text + ", want <0xHH> in a byte piece");
  }
}

TEST_F(TokenizerTableTest, ByteFallbackNeedsAll256BytePieces) {
  TokenizerTable table = WithBytePieces();
  EXPECT_OK(TokenizerTable::Parse(*table.Serialize(), 1000));
  table.pieces[6 + 0x41].text = "<0x42>";
  ExpectRefused(table,
                "byte_fallback: 1 with 255 of the 256 byte pieces, want all; <0x41> is missing");
  table.byte_fallback = false;
  EXPECT_OK(TokenizerTable::Parse(*table.Serialize(), 1000));
}

TEST_F(TokenizerTableTest, DoesNotWriteAPieceThatItsLengthFieldCannotHold) {
  TokenizerTable table = TinyTokenizer();
  table.pieces[4].text.assign(65535, 'a');
  EXPECT_OK(table.Serialize());
  table.pieces[4].text.push_back('a');
  EXPECT_THAT(table.Serialize(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          "piece 4: length 65536, want at most 65535"));
}

}  // namespace
}  // namespace needle::format
