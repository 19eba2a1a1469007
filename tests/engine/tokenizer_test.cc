#include "engine/tokenizer.h"

#include <string>
#include <vector>

#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kVocab = 704;

Tokenizer LoadTokenizer(const std::string& name) {
  auto table = format::TokenizerTable::Parse(
      tests::ReadBytes(tests::Testdata("tokenizer/" + name + ".attachment")), kVocab);
  if (!table.ok()) throw std::runtime_error(table.status().ToString());
  return Tokenizer(*std::move(table));
}

class GoldenTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizer, EveryCaseIsExactBothWays) {
  const Tokenizer tokenizer = LoadTokenizer(GetParam());
  const auto cases = base::ParseJson(
      tests::ReadFile(tests::Testdata("tokenizer/" + std::string(GetParam()) + ".cases.json")));
  ASSERT_OK(cases);
  ASSERT_GE(cases->size(), 30U);
  for (const base::Json& example : *cases) {
    const auto text = example.at("text").get<std::string>();
    const auto ids = example.at("ids").get<std::vector<uint32_t>>();
    EXPECT_EQ(tokenizer.Encode(text), ids) << text;
    EXPECT_EQ(tokenizer.Decode(ids), example.at("decoded").get<std::string>()) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTokenizer, ::testing::Values("bpe", "bpe-dummy-prefix"));

// A table of our own: bytes 0 ... 255 as pieces 10 + byte, then what a test adds.
format::TokenizerTable SmallTable() {
  format::TokenizerTable table;
  table.eos_id = 1;
  table.bos_id = 2;
  table.unk_id = 3;
  table.byte_fallback = true;
  const auto add = [&table](std::string text, format::PieceType type) {
    table.pieces.push_back({std::move(text), 0, type});
  };
  for (const char* control : {"<pad>", "</s>", "<s>"}) add(control, format::PieceType::kControl);
  add("<unk>", format::PieceType::kUnknown);
  for (const char* marker : {"<a>", "<a><b>", "<c>", "<d>", "<e>", "<f>"}) {
    add(marker, format::PieceType::kUserDefined);
  }
  const std::string digits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", format::PieceType::kByte);
  }
  return table;
}

constexpr uint32_t kFirstByte = 10;

TEST(TokenizerTest, MergesByScoreAndLeftmostOnATie) {
  format::TokenizerTable table = SmallTable();
  const auto base = static_cast<uint32_t>(table.pieces.size());
  const auto add = [&table](std::string text, float score) {
    table.pieces.push_back({std::move(text), score, format::PieceType::kNormal});
  };
  add("a", -10);     // base
  add("b", -10);     // base + 1
  add("aa", -1);     // base + 2
  add("ab", -0.5F);  // base + 3
  const Tokenizer tokenizer(std::move(table));
  EXPECT_THAT(tokenizer.Encode("aaaaa"), ElementsAre(base + 2, base + 2, base));
  EXPECT_THAT(tokenizer.Encode("aab"), ElementsAre(base, base + 3));
}

TEST(TokenizerTest, LongestMarkerIsEmittedWholeAndSplitsTheText) {
  const Tokenizer tokenizer(SmallTable());
  EXPECT_THAT(tokenizer.Encode("<a><b><a>"), ElementsAre(5, 4));
  EXPECT_THAT(tokenizer.Encode("<a>x<c>"), ElementsAre(4, kFirstByte + 'x', 6));
  EXPECT_THAT(tokenizer.Encode("<a"), ElementsAre(kFirstByte + '<', kFirstByte + 'a'));
}

TEST(TokenizerTest, BytesThatAreNotUtf8BecomeBytePieces) {
  const Tokenizer tokenizer(SmallTable());
  EXPECT_THAT(tokenizer.Encode("\xE6\xAD"), ElementsAre(kFirstByte + 0xE6, kFirstByte + 0xAD));
  EXPECT_THAT(tokenizer.Encode("\xFF"), ElementsAre(kFirstByte + 0xFF));
  EXPECT_THAT(tokenizer.Encode(std::string_view("\0", 1)), ElementsAre(kFirstByte));
}

TEST(TokenizerTest, WithoutByteFallbackUnknownSymbolsBecomeUnk) {
  format::TokenizerTable table = SmallTable();
  table.byte_fallback = false;
  const Tokenizer tokenizer(std::move(table));
  EXPECT_THAT(tokenizer.Encode("\xE6\x98\x8E"), ElementsAre(3));
  EXPECT_EQ(tokenizer.Decode(std::vector<uint32_t>{3}), "");
}

TEST(TokenizerTest, DecodingReplacesWhatIsNotUtf8AndSkipsWhatHasNoText) {
  const Tokenizer tokenizer(SmallTable());
  const std::vector<uint32_t> cut = {kFirstByte + 'x', kFirstByte + 0xE6, kFirstByte + 0x98};
  EXPECT_EQ(tokenizer.Decode(cut), "x\xEF\xBF\xBD");
  const std::vector<uint32_t> silent = {0, 1, 2, 3, 100000, kFirstByte + 'y'};
  EXPECT_EQ(tokenizer.Decode(silent), "y");
}

TEST(StreamDecoderTest, HoldsBackACharacterUntilItIsComplete) {
  const Tokenizer tokenizer(SmallTable());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.Push(kFirstByte + 0xE6), "");
  EXPECT_EQ(decoder.Push(kFirstByte + 0x98), "");
  EXPECT_EQ(decoder.Push(kFirstByte + 0x8E), "\xE6\x98\x8E");
  EXPECT_EQ(decoder.Push(kFirstByte + 0xF0), "");
  EXPECT_EQ(decoder.Push(kFirstByte + 'z'), "\xEF\xBF\xBDz");
  EXPECT_EQ(decoder.Push(kFirstByte + 0xE6), "");
  EXPECT_EQ(decoder.Finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoderTest, DropsOneLeadingSpaceOfADummyPrefixOnly) {
  const Tokenizer tokenizer = LoadTokenizer("bpe-dummy-prefix");
  const std::vector<uint32_t> ids = tokenizer.Encode("  two");
  EXPECT_EQ(tokenizer.Decode(ids), "  two");
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const uint32_t id : ids) text += decoder.Push(id);
  EXPECT_EQ(text + decoder.Finish(), "  two");
}

// Near-linear: were it quadratic, this would take hours and run into the test's timeout.
TEST(TokenizerTest, EncodesMegabytesOfOneLetterAndOfText) {
  const Tokenizer tokenizer = LoadTokenizer("bpe");
  const std::string letters(1 << 20, 'a');
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(letters)), letters);
  std::string text;
  while (text.size() < (1 << 20)) text += "turn on the attic light <tool_call> \xE6\x98\x8E; ";
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text);
}

TEST(TokenizerTest, EmptyTextHasNoIds) {
  EXPECT_THAT(LoadTokenizer("bpe-dummy-prefix").Encode(""), IsEmpty());
}

}  // namespace
}  // namespace needle::engine
