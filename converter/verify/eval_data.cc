#include "converter/verify/eval_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"

namespace needle::verify {
namespace {

using base::Json;

// A value that is JSON itself, or a string that holds JSON.
absl::StatusOr<Json> Unpacked(const Json& value) {
  if (!value.is_string()) return value;
  return base::ParseJson(value.get_ref<const std::string&>());
}

absl::Status Wrong(std::string_view key, const Json& found, std::string_view wanted) {
  std::string text = base::DumpJson(found);
  if (text.size() > 60) text = absl::StrCat(text.substr(0, 60), "...");
  return absl::DataLossError(
      absl::StrCat("\"", std::string(key), "\": ", text, ", want ", std::string(wanted)));
}

// {name, arguments}, in this order, from a call or the "function" of one.
absl::StatusOr<Json> CallFromJson(const Json& given) {
  if (!given.is_object()) return Wrong("answers", given, "an array of objects");
  const auto function = given.find("function");
  const Json& call = function == given.end() ? given : *function;
  if (!call.is_object()) return Wrong("function", call, "an object");
  const auto name = call.find("name");
  if (name == call.end() || !name->is_string()) return Wrong("name", call, "a name, a string");
  Json result = {{"name", *name}, {"arguments", Json::object()}};
  const auto arguments = call.find("arguments");
  if (arguments == call.end()) return result;
  ASSIGN_OR_RETURN(result["arguments"], Unpacked(*arguments));
  if (!result["arguments"].is_object()) return Wrong("arguments", *arguments, "an object");
  return result;
}

absl::StatusOr<Json> CallsFromJson(std::string_view key, const Json& given) {
  ASSIGN_OR_RETURN(const Json calls, Unpacked(given));
  if (!calls.is_array()) return Wrong(key, given, "an array");
  Json result = Json::array();
  for (const Json& call : calls) {
    ASSIGN_OR_RETURN(Json normal, CallFromJson(call));
    result.push_back(std::move(normal));
  }
  return result;
}

absl::StatusOr<std::string> TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::string();
  if (!found->is_string()) return Wrong(key, *found, "a string");
  return found->get<std::string>();
}

// Answers and reasoning from the last message of a chat.
absl::Status ReadChat(const Json& messages, EvalExample& example) {
  if (!messages.is_array() || messages.empty() || !messages.back().is_object()) {
    return Wrong("messages", messages, "an array of objects");
  }
  const Json& last = messages.back();
  ASSIGN_OR_RETURN(const std::string role, TextOf(last, "role"));
  if (role != "assistant") return Wrong("role", role, "the last message to be the assistant's");
  ASSIGN_OR_RETURN(example.reasoning, TextOf(last, "reasoning_content"));
  const auto calls = last.find("tool_calls");
  if (calls == last.end() || calls->is_null()) return absl::OkStatus();
  ASSIGN_OR_RETURN(example.answers, CallsFromJson("tool_calls", *calls));
  return absl::OkStatus();
}

absl::StatusOr<EvalExample> ExampleFromJson(const Json& line) {
  if (!line.is_object()) return Wrong("line", line, "an object");
  EvalExample example;
  if (const auto messages = line.find("messages"); messages != line.end()) {
    RETURN_IF_ERROR(ReadChat(*messages, example));
  } else {
    const auto answers = line.find("answers");
    if (answers == line.end()) return absl::DataLossError("no \"answers\" and no \"messages\"");
    ASSIGN_OR_RETURN(example.answers, CallsFromJson("answers", *answers));
    ASSIGN_OR_RETURN(example.reasoning, TextOf(line, "reasoning"));
  }
  ASSIGN_OR_RETURN(example.request, engine::RequestFromJson(line));
  return example;
}

absl::StatusOr<EvalExample> ParseLine(std::string_view text) {
  ASSIGN_OR_RETURN(const Json line, base::ParseJson(text));
  return ExampleFromJson(line);
}

}  // namespace

absl::StatusOr<std::vector<EvalExample>> ParseExamples(std::string_view text,
                                                       const std::string& name,
                                                       size_t max_examples) {
  std::vector<EvalExample> examples;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    absl::StatusOr<EvalExample> example = ParseLine(content);
    if (!example.ok()) {
      return absl::DataLossError(
          absl::StrCat(name, ": line ", line, ": ", example.status().message()));
    }
    example->line = line;
    examples.push_back(*std::move(example));
    if (examples.size() == max_examples) break;
  }
  if (examples.empty()) return absl::DataLossError(absl::StrCat(name, ": no examples"));
  return examples;
}

absl::StatusOr<std::vector<EvalExample>> ReadExamples(const std::string& path,
                                                      size_t max_examples) {
  ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  const std::string text(file.bytes().begin(), file.bytes().end());
  return ParseExamples(text, path, max_examples);
}

std::string AnswerText(const EvalExample& example) {
  std::string text;
  if (!example.reasoning.empty())
    text = absl::StrCat("<think>\n", example.reasoning, "\n</think>\n");
  return absl::StrCat(text, "<tool_call>", base::DumpJson(example.answers),
                      "</tool_call><|im_end|>");
}

TaughtTokens EncodeTaught(const engine::Tokenizer& tokenizer, const EvalExample& example) {
  TaughtTokens taught{.tokens = engine::EncodePrompt(tokenizer, example.request)};
  taught.answer_start = taught.tokens.size();
  // The answer starts with a marker, where the encoding starts anew: encoding it apart from the
  // prompt gives the ids of the whole, unless the tokenizer puts a space in front of every text.
  const std::string text = engine::RenderPrompt(example.request) + AnswerText(example);
  const std::vector<uint32_t> ids = tokenizer.Encode(text);
  taught.tokens.insert(taught.tokens.end(),
                       ids.begin() + static_cast<ptrdiff_t>(taught.answer_start - 1), ids.end());
  taught.tokens.push_back(tokenizer.table().eos_id);
  return taught;
}

}  // namespace needle::verify
