// Field case F16: non-ASCII text, as far as data files go.
#include "converter/verify/eval_data.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::verify {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::StatusIs;

EvalExample ParseOne(const std::string& line) {
  const auto examples = ParseExamples(line, "data.jsonl");
  EXPECT_OK(examples);
  return examples.ok() ? examples->at(0) : EvalExample{};
}

TEST(EvalDataTest, ReadsTheFixture) {
  const auto examples = ReadExamples(tests::Testdata("fixture/held.jsonl"));
  ASSERT_OK(examples);
  ASSERT_EQ(examples->size(), 400);
  const EvalExample& second = examples->at(1);
  EXPECT_EQ(second.line, 2);
  EXPECT_EQ(second.request.query, "count down 24 hours");
  EXPECT_EQ(
      AnswerText(second),
      R"(<tool_call>[{"name":"set_timer","arguments":{"amount":24,"unit":"hours"}}]</tool_call><|im_end|>)");
  EXPECT_EQ(AnswerText(examples->at(0)), "<tool_call>[]</tool_call><|im_end|>");
}

TEST(EvalDataTest, ReadsNoMoreThanAsked) {
  const auto examples = ReadExamples(tests::Testdata("fixture/held.jsonl"), 7);
  ASSERT_OK(examples);
  EXPECT_EQ(examples->size(), 7);
}

TEST(EvalDataTest, SystemAndReasoning) {
  const EvalExample example = ParseOne(
      R"({"query":"q","tools":[],"answers":[],"system":"be brief","reasoning":"no tool fits"})");
  EXPECT_EQ(example.request.system, "be brief");
  EXPECT_EQ(AnswerText(example),
            "<think>\nno tool fits\n</think>\n<tool_call>[]</tool_call><|im_end|>");
}

// The same request in the field's forms.
TEST(EvalDataTest, ChatStyleAndStringsGiveTheSameExample) {
  const EvalExample plain = ParseOne(
      R"({"query":"light on","tools":[{"name":"light","parameters":{"state":"string"}}],"answers":[{"name":"light","arguments":{"state":"on"}}],"reasoning":"r"})");
  const EvalExample strings = ParseOne(
      R"({"query":"light on","tools":"[{\"name\": \"light\", \"parameters\": {\"state\": \"string\"}}]","answers":"[{\"name\": \"light\", \"arguments\": {\"state\": \"on\"}}]","reasoning":"r"})");
  const EvalExample chat = ParseOne(
      R"({"messages":[{"role":"user","content":"light on"},{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"1","type":"function","function":{"name":"light","arguments":"{\"state\": \"on\"}"}}]}],"tools":[{"type":"function","function":{"name":"light","parameters":{"state":"string"}}}]})");
  for (const EvalExample* other : {&strings, &chat}) {
    EXPECT_EQ(engine::RenderPrompt(other->request), engine::RenderPrompt(plain.request));
    EXPECT_EQ(AnswerText(*other), AnswerText(plain));
  }
}

TEST(EvalDataTest, AnAssistantThatCallsNothing) {
  const EvalExample example = ParseOne(
      R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]})");
  EXPECT_EQ(example.request.system, "s");
  EXPECT_TRUE(example.answers.empty());
}

TEST(EvalDataTest, EscapedAndRawTextAreTheSame) {
  const EvalExample raw = ParseOne(
      "{\"query\":\"\xE6\x98\x8E\xE6\x97\xA5\",\"tools\":[{\"name\":\"\xF0\x9F\x98\x80\"}],"
      "\"answers\":[{\"name\":\"\xE6\x98\x8E\",\"arguments\":{}}]}");
  const EvalExample escaped = ParseOne(
      R"({"query":"\u660e\u65e5","tools":[{"name":"\ud83d\ude00"}],"answers":[{"name":"\u660e","arguments":{}}]})");
  EXPECT_EQ(engine::RenderPrompt(raw.request), engine::RenderPrompt(escaped.request));
  EXPECT_EQ(AnswerText(raw), AnswerText(escaped));
  EXPECT_THAT(AnswerText(raw), HasSubstr("\xE6\x98\x8E"));
}

TEST(EvalDataTest, SkipsBlankLinesAndCountsThem) {
  const auto examples = ParseExamples(
      "\n  \r\n{\"query\":\"a\",\"answers\":[]}\r\n\n{\"query\":\"b\",\"answers\":[]}", "x");
  ASSERT_OK(examples);
  ASSERT_EQ(examples->size(), 2);
  EXPECT_EQ(examples->at(0).line, 3);
  EXPECT_EQ(examples->at(1).line, 5);
}

void ExpectRefused(const std::string& line, const std::string& reason) {
  const std::string good = R"({"query":"a","answers":[]})";
  EXPECT_THAT(ParseExamples(good + "\n" + line + "\n", "data.jsonl"),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("data.jsonl: line 2: "), HasSubstr(reason))))
      << line;
}

TEST(EvalDataTest, NamesLineAndKeyOfWhatIsWrong) {
  ExpectRefused("{", "JSON");
  ExpectRefused("[]", "object");
  ExpectRefused("3", "object");
  ExpectRefused(R"({"query":"a"})", "answers");
  ExpectRefused(R"({"answers":[]})", "query");
  ExpectRefused(R"({"query":5,"answers":[]})", "query");
  ExpectRefused(R"({"query":"a","answers":{}})", "answers");
  ExpectRefused(R"({"query":"a","answers":"[{"})", "JSON");
  ExpectRefused(R"({"query":"a","answers":[3]})", "answers");
  ExpectRefused(R"({"query":"a","answers":[{"arguments":{}}]})", "name");
  ExpectRefused(R"({"query":"a","answers":[{"name":"f","arguments":[1]}]})", "arguments");
  ExpectRefused(R"({"query":"a","answers":[],"reasoning":1})", "reasoning");
  ExpectRefused(R"({"query":"a","answers":[],"answers":[]})", "twice");
  ExpectRefused(R"({"query":"a","answers":[],"tools":"nothing"})", "");
  ExpectRefused(R"({"messages":[]})", "messages");
  ExpectRefused(R"({"messages":[{"role":"user","content":"a"}]})", "assistant");
  ExpectRefused("{\"query\":\"\xFF\",\"answers\":[]}", "");
  ExpectRefused(R"({"query":"\ud800","answers":[]})", "");
}

TEST(EvalDataTest, NoExamplesIsAnError) {
  EXPECT_THAT(ParseExamples("\n\n", "empty.jsonl"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("empty.jsonl: no examples")));
}

}  // namespace
}  // namespace needle::verify
