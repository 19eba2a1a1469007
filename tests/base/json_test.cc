#include "base/json.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace needle::base {
namespace {

using ::testing::HasSubstr;
using tests::StatusIs;

TEST(JsonTest, KeepsOrderAndNonAscii) {
  const auto value = ParseJson(
      "{\"b\": [1, -2, 2.5, null, true], \"a\": \"\\u660e\xE6\x97\xA5 \\ud83d\\ude00\", \"c\": "
      "{}}");
  ASSERT_OK(value);
  EXPECT_EQ(
      DumpJson(*value),
      "{\"b\":[1,-2,2.5,null,true],\"a\":\"\xE6\x98\x8E\xE6\x97\xA5 \xF0\x9F\x98\x80\",\"c\":{}}");
}

TEST(JsonTest, ReplacesInvalidUtf8WhenWriting) {
  EXPECT_EQ(DumpJson(Json("a\xE6\xAD")), "\"a\xEF\xBF\xBD\"");
}

// The library's parser takes a NUL byte for the end of the text and ignores what follows.
TEST(JsonTest, RefusesNulBytesWhereverTheyAre) {
  for (const std::string text : {"{\"a\":1}| ]]] \"rubbish", "{\"a\":1}|", "|{\"a\":1}",
                                 "{\"a\":|1}", "{\"a|\":1}", "[1,|2]", "1|2", "|"}) {
    std::string with_nul = text;
    const size_t place = with_nul.find('|');
    with_nul[place] = '\0';
    EXPECT_THAT(ParseJson(with_nul),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("NUL byte (byte " + std::to_string(place + 1) + ")")))
        << text;
  }
  EXPECT_EQ(ParseJson("\"a\\u0000b\"")->get<std::string>(), std::string("a\0b", 3));
}

TEST(JsonTest, RefusesWithTheReason) {
  const struct {
    std::string text;
    std::string reason;
  } kCases[] = {
      {"", "byte 1"},
      {"{\"a\":1", "byte 7"},
      {"[1,2] x", "byte 7"},
      {"{\"a\":1,\"b\":2,\"a\":3}", "key \"a\" is given twice"},
      {"\"\\ud800\"", "surrogate"},
      {"\"\xFF\"", "UTF-8"},
      {"[1e999]", "number overflow"},
      {std::string("\"a\0b\"", 5), "byte 3"},
      {std::string(65, '[') + std::string(65, ']'), "deeper than 64"},
      {std::string(1000000, '['), "deeper than 64"},
  };
  for (const auto& test : kCases) {
    EXPECT_THAT(ParseJson(test.text), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(test.reason)))
        << test.text;
  }
  EXPECT_OK(ParseJson(std::string(64, '[') + std::string(64, ']')));
}

}  // namespace
}  // namespace needle::base
