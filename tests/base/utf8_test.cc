#include "base/utf8.h"

#include <string>

#include "gtest/gtest.h"

namespace needle::base {
namespace {

TEST(Utf8Test, ReplacesMaximalIllFormedParts) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(ReplaceInvalidUtf8("a\xE6\x98z"), "a" + mark + "z");                 // cut character
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), mark + mark + mark);             // surrogate
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\xAF"), mark + mark);                        // overlong
  EXPECT_EQ(ReplaceInvalidUtf8("\xF4\x90\x80\x80"), mark + mark + mark + mark);  // too large
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(Utf8Test, FindsTheFirstIllFormedByte) {
  EXPECT_EQ(FindInvalidUtf8("ab\xFF"), 2U);
  EXPECT_EQ(FindInvalidUtf8("ab\xE6\xAD"), 2U);
  EXPECT_EQ(FindInvalidUtf8("ab"), 2U);
}

}  // namespace
}  // namespace needle::base
