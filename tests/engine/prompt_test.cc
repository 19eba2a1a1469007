#include "engine/prompt.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace needle::engine {
namespace {

using ::needle::tests::StatusIs;
using ::testing::HasSubstr;

constexpr char kMeeting[] = "\xE6\x98\x8E\xE6\x97\xA5";  // U+660E U+65E5

base::Json Parse(const std::string& text) { return *base::ParseJson(text); }

TEST(PromptTest, RendersToolsQueryAndSystemText) {
  EXPECT_EQ(RenderPrompt({.query = "hi"}),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(RenderPrompt({.system = "be brief", .tools = "[{}]", .query = "hi"}),
            "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n<tools>[{}]</tools>\nhi"
            "<|im_end|>\n<|im_start|>assistant\n");
}

TEST(PromptTest, ToolsBecomeCompactJsonInTheirOwnOrder) {
  const auto tools = CompactTools(std::string_view(R"([ {"name" : "z", "a" : [1, 2.5, null]} ])"));
  ASSERT_OK(tools);
  EXPECT_EQ(*tools, R"([{"name":"z","a":[1,2.5,null]}])");
}

TEST(PromptTest, EscapedAndRawTextGiveTheSameTools) {
  const auto escaped = CompactTools(std::string_view(R"([{"name":"\u660e\u65e5"}])"));
  ASSERT_OK(escaped);
  EXPECT_EQ(*escaped, std::string(R"([{"name":")") + kMeeting + R"("}])");
  const auto pair = CompactTools(std::string_view(R"([{"name":"\ud83d\ude00"}])"));
  ASSERT_OK(pair);
  EXPECT_EQ(*pair, "[{\"name\":\"\xF0\x9F\x98\x80\"}]");
}

TEST(PromptTest, RefusesLoneSurrogatesAndInvalidUtf8) {
  EXPECT_THAT(CompactTools(std::string_view(R"([{"name":"\ud800"}])")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("byte")));
  EXPECT_THAT(CompactTools(std::string_view("[{\"name\":\"\xE6\xAD\"}]")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("byte")));
}

TEST(PromptTest, RefusesToolsThatAreNoListOfObjects) {
  EXPECT_THAT(CompactTools(std::string_view("{}")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("want an array")));
  EXPECT_THAT(CompactTools(std::string_view("[{}, 3]")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("entry 1")));
}

TEST(PromptTest, UnwrapsOpenAiStyleTools) {
  const auto tools = CompactTools(
      std::string_view(R"([{"type":"function","function":{"name":"f","parameters":{}}}])"));
  ASSERT_OK(tools);
  EXPECT_EQ(*tools, R"([{"name":"f","parameters":{}}])");
}

TEST(PromptTest, ReadsPlainAndChatStyleLines) {
  const auto plain = RequestFromJson(Parse(R"({"query":"q","tools":[{"name":"f"}],"system":"s"})"));
  ASSERT_OK(plain);
  const auto chat =
      RequestFromJson(Parse(R"({"messages":[{"role":"system","content":"s"},)"
                            R"({"role":"user","content":[{"type":"text","text":"q"}]},)"
                            R"({"role":"assistant","content":null}],)"
                            R"("tools":[{"type":"function","function":{"name":"f"}}]})"));
  ASSERT_OK(chat);
  EXPECT_EQ(RenderPrompt(*plain), RenderPrompt(*chat));
  EXPECT_THAT(RenderPrompt(*plain), HasSubstr("<tools>[{\"name\":\"f\"}]</tools>\nq<|im_end|>"));
}

TEST(PromptTest, NamesWhatALineLacks) {
  EXPECT_THAT(RequestFromJson(Parse("{}")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("query")));
  EXPECT_THAT(RequestFromJson(Parse(R"({"messages":[]})")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no user message")));
  EXPECT_THAT(RequestFromJson(Parse(R"({"query":3})")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"query\" is number")));
}

}  // namespace
}  // namespace needle::engine
