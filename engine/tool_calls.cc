#include "engine/tool_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace needle::engine {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kTurnEnd = "<|im_end|>";

// What stands in front of a marker, and what follows it.
struct Cut {
  std::string_view before, after;
};

// Cuts `text` at `end`, which is `marker_size` bytes long; at npos all of it stands before.
Cut CutAt(std::string_view text, size_t end, size_t marker_size) {
  if (end == std::string_view::npos) return {text, {}};
  return {text.substr(0, end), text.substr(end + marker_size)};
}

// The end of the JSON string that starts at `begin`, behind its closing quote; npos without one.
size_t StringEnd(std::string_view text, size_t begin) {
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1;
  }
  return std::string_view::npos;
}

// Where a call's JSON ends: at </tool_call> or <|im_end|> outside its strings. In a text whose
// last string is never closed, which is no JSON, at the first </tool_call> behind that quote.
size_t CallsEnd(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      const size_t end = StringEnd(text, i);
      if (end == std::string_view::npos) return text.find(kCallEnd, i);
      i = end - 1;
    } else if (text.substr(i).starts_with(kCallEnd) || text.substr(i).starts_with(kTurnEnd)) {
      return i;
    }
  }
  return std::string_view::npos;
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
  answer.error.clear();
  answer.parsed = true;
}

}  // namespace

// From left to right, so that a marker only counts where nothing around it makes it text: a
// reasoning may quote markers, and so may the strings of a call.
Answer ParseAnswer(std::string_view text) {
  Answer answer;
  answer.error = "no <tool_call> in the answer";
  std::string outside;
  bool has_think = false, has_calls = false;
  while (!text.empty()) {
    if (!has_think && text.starts_with(kThink)) {
      const std::string_view block = text.substr(kThink.size());
      const Cut cut = CutAt(block, block.find(kThinkEnd), kThinkEnd.size());
      answer.think = Trimmed(cut.before);
      text = cut.after;
      has_think = true;
    } else if (!has_calls && text.starts_with(kCall)) {
      const std::string_view block = text.substr(kCall.size());
      const size_t end = CallsEnd(block);
      const bool closed = end != std::string_view::npos && block.substr(end).starts_with(kCallEnd);
      const Cut cut = CutAt(block, end, closed ? kCallEnd.size() : 0);
      ParseCalls(cut.before, answer);
      text = cut.after;
      has_calls = true;
    } else if (text.starts_with(kTurnEnd)) {
      break;
    } else {
      outside += text.front();
      text.remove_prefix(1);
    }
  }
  answer.text = Trimmed(outside);
  return answer;
}

}  // namespace needle::engine
