#include "engine/tool_calls.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace needle::engine {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kTurnEnd = "<|im_end|>";

// Cuts `text` from `open` to `close` (or to the end) out of it and returns what was between them.
std::optional<std::string> TakeBlock(std::string& text, std::string_view open,
                                     std::string_view close) {
  const size_t begin = text.find(open);
  if (begin == std::string::npos) return std::nullopt;
  const size_t inner = begin + open.size();
  const size_t end = text.find(close, inner);
  std::string block =
      text.substr(inner, end == std::string::npos ? std::string::npos : end - inner);
  text.erase(begin, end == std::string::npos ? std::string::npos : end + close.size() - begin);
  return block;
}

std::string Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \n\r\t";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return std::string();
  return std::string(text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin));
}

// Fills `calls`, or `error`.
void ParseCalls(std::string_view block, Answer& answer) {
  absl::StatusOr<base::Json> calls = base::ParseJson(block);
  if (!calls.ok()) {
    answer.error = std::string(calls.status().message());
    return;
  }
  if (!calls->is_array()) {
    answer.error = absl::StrCat("tool_call holds ", calls->type_name(), ", want an array");
    return;
  }
  for (const base::Json& call : *calls) {
    if (call.is_object()) continue;
    answer.error = absl::StrCat("a call is ", call.type_name(), ", want an object");
    return;
  }
  answer.calls = *std::move(calls);
  answer.parsed = true;
}

}  // namespace

Answer ParseAnswer(std::string_view text) {
  Answer answer;
  // A reasoning text may quote the other markers, so it is cut out first.
  std::string rest(text);
  if (const auto think = TakeBlock(rest, kThink, kThinkEnd); think.has_value()) {
    answer.think = Trimmed(*think);
  }
  rest = rest.substr(0, rest.find(kTurnEnd));
  if (const auto block = TakeBlock(rest, kCall, kCallEnd); block.has_value()) {
    ParseCalls(*block, answer);
  } else {
    answer.error = "no <tool_call> in the answer";
  }
  answer.text = Trimmed(rest);
  return answer;
}

}  // namespace needle::engine
