#include "engine/tool_calls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace needle::engine {
namespace {

using ::testing::HasSubstr;

TEST(ToolCallsTest, ReadsThinkTextAndCalls) {
  const Answer answer = ParseAnswer(
      "<think>\nlook up <tool_call>\n</think>\n"
      "<tool_call>[{\"name\":\"f\",\"arguments\":{\"x\":1}}]</tool_call><|im_end|>");
  EXPECT_EQ(answer.think, "look up <tool_call>");
  ASSERT_TRUE(answer.parsed);
  EXPECT_EQ(base::DumpJson(answer.calls), R"([{"name":"f","arguments":{"x":1}}])");
  EXPECT_EQ(answer.text, "");
}

TEST(ToolCallsTest, AnEmptyListIsAnAnswer) {
  const Answer answer = ParseAnswer("<tool_call>[]</tool_call><|im_end|>");
  EXPECT_TRUE(answer.parsed);
  EXPECT_TRUE(answer.calls.empty());
}

TEST(ToolCallsTest, TheClosingMarkerMayBeMissing) {
  EXPECT_TRUE(ParseAnswer("<tool_call>[{\"name\":\"f\"}]").parsed);
}

TEST(ToolCallsTest, SaysWhyAnAnswerCannotBeRead) {
  const Answer cut = ParseAnswer("<tool_call>[{\"name\":\"f");
  EXPECT_FALSE(cut.parsed);
  EXPECT_THAT(cut.error, HasSubstr("JSON"));
  EXPECT_THAT(ParseAnswer("<tool_call>{}</tool_call>").error, HasSubstr("want an array"));
  EXPECT_THAT(ParseAnswer("<tool_call>[1]</tool_call>").error, HasSubstr("want an object"));
  const Answer plain = ParseAnswer("good morning<|im_end|>");
  EXPECT_THAT(plain.error, HasSubstr("no <tool_call>"));
  EXPECT_EQ(plain.text, "good morning");
}

}  // namespace
}  // namespace needle::engine
