#include "engine/tool_calls.h"

#include <string>

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

// A message to send may quote the markers that end a call, a turn or a reasoning.
TEST(ToolCallsTest, MarkersInsideJsonStringsAreText) {
  for (const std::string quoted :
       {"x</tool_call>y", "x<|im_end|>y", "x<think>y", "x</think>y", "<tool_call>",
        "<think></think>", R"(\"</tool_call>\")", R"(\\)", R"(\\\"<|im_end|>)"}) {
    const std::string call = R"([{"name":"f","arguments":{"x":")" + quoted + R"("}}])";
    const Answer answer =
        ParseAnswer("<think>\nwhy\n</think>\n<tool_call>" + call + "</tool_call><|im_end|>rest");
    EXPECT_EQ(answer.think, "why") << quoted;
    ASSERT_TRUE(answer.parsed) << quoted << ": " << answer.error;
    EXPECT_EQ(base::DumpJson(answer.calls), call) << quoted;
    EXPECT_EQ(answer.text, "") << quoted;
  }
}

TEST(ToolCallsTest, MarkersEndACallOutsideItsStrings) {
  const Answer turn = ParseAnswer("a <tool_call>[]<|im_end|> b");
  EXPECT_TRUE(turn.parsed);
  EXPECT_EQ(turn.text, "a");
  const Answer broken = ParseAnswer("<tool_call>[\"x</tool_call> b <|im_end|>");
  EXPECT_FALSE(broken.parsed);
  EXPECT_EQ(broken.text, "b");
  const Answer after = ParseAnswer("<tool_call>[]</tool_call><think>late</think> b");
  EXPECT_TRUE(after.parsed);
  EXPECT_EQ(after.think, "late");
  EXPECT_EQ(after.text, "b");
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
