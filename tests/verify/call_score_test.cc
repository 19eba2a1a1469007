#include "converter/verify/call_score.h"

#include "gtest/gtest.h"

namespace needle::verify {
namespace {

base::Json Parse(const char* text) {
  auto json = base::ParseJson(text);
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *std::move(json) : base::Json();
}

bool Same(const char* a, const char* b) {
  const bool same = SameJson(Parse(a), Parse(b));
  EXPECT_EQ(same, SameJson(Parse(b), Parse(a))) << a << " and " << b;
  return same;
}

TEST(SameJsonTest, KeysInAnyOrderNumbersByValue) {
  EXPECT_TRUE(Same(R"({"a":1,"b":[true,null]})", R"({"b":[true,null],"a":1.0})"));
  EXPECT_TRUE(Same("[]", "[]"));
}

TEST(SameJsonTest, AllElseIsExact) {
  EXPECT_FALSE(Same(R"({"a":1})", R"({"a":1,"b":2})"));
  EXPECT_FALSE(Same(R"({"a":1})", R"({"b":1})"));
  EXPECT_FALSE(Same(R"({"a":1})", R"({"a":"1"})"));
  EXPECT_FALSE(Same("[1,2]", "[2,1]"));
  EXPECT_FALSE(Same("[1]", "[1,1]"));
  EXPECT_FALSE(Same("true", "1"));
  EXPECT_FALSE(Same("null", "false"));
  EXPECT_FALSE(Same(R"("a")", R"("a ")"));
  EXPECT_FALSE(Same("{}", "[]"));
}

CallScore Score(const char* wanted, const char* answer) {
  return ScoreCalls(Parse(wanted), engine::ParseAnswer(answer));
}

constexpr const char* kTwo = R"([{"name":"a","arguments":{"x":1,"y":"z"}},{"name":"b"}])";

TEST(ScoreCallsTest, ExactWhenNamesAndArgumentsAreTheSameInOrder) {
  const CallScore score = Score(
      kTwo,
      R"(<tool_call>[{"arguments":{"y":"z","x":1.0},"name":"a","id":7},{"name":"b","arguments":{}}]</tool_call><|im_end|>)");
  EXPECT_TRUE(score.parsed);
  EXPECT_TRUE(score.exact);
  EXPECT_EQ(score.called, 2);
  EXPECT_EQ(score.wanted, 2);
}

TEST(ScoreCallsTest, NotExactInAnotherOrderOrWithOtherArguments) {
  EXPECT_FALSE(
      Score(kTwo,
            R"(<tool_call>[{"name":"b"},{"name":"a","arguments":{"x":1,"y":"z"}}]</tool_call>)")
          .exact);
  EXPECT_FALSE(
      Score(kTwo,
            R"(<tool_call>[{"name":"a","arguments":{"x":2,"y":"z"}},{"name":"b"}]</tool_call>)")
          .exact);
}

TEST(ScoreCallsTest, NoCallsAreExactWhenNoneWereWanted) {
  EXPECT_TRUE(Score("[]", "<tool_call>[]</tool_call><|im_end|>").exact);
  const CallScore over = Score("[]", R"(<tool_call>[{"name":"a"}]</tool_call>)");
  EXPECT_FALSE(over.exact);
  EXPECT_GT(over.called, over.wanted);
}

TEST(ScoreCallsTest, WhatCannotBeReadIsNeverExact) {
  for (const char* answer : {"", "<|im_end|>", "<tool_call>[{</tool_call>", "[]"}) {
    const CallScore score = Score("[]", answer);
    EXPECT_FALSE(score.parsed) << answer;
    EXPECT_FALSE(score.exact) << answer;
  }
}

}  // namespace
}  // namespace needle::verify
