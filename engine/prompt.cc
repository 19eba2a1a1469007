#include "engine/prompt.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace needle::engine {
namespace {

using base::Json;

// {"type": "function", "function": {...}} without its wrapping.
const Json& Unwrapped(const Json& tool) {
  const auto function = tool.find("function");
  const bool wrapped = tool.contains("type") && function != tool.end() && function->is_object();
  return wrapped ? *function : tool;
}

// The text of a string member, "" when it is missing or null.
absl::StatusOr<std::string> TextMember(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::string();
  if (!found->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("\"%s\" is %s, want a string", key, found->type_name()));
  }
  return found->get<std::string>();
}

// The text of a message: a string, or chat-style parts of type "text".
absl::StatusOr<std::string> MessageText(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return TextMember(message, "content");
  std::string text;
  for (const Json& part : *content) {
    if (!part.is_object()) {
      return absl::InvalidArgumentError("\"content\" holds a part that is no object");
    }
    ASSIGN_OR_RETURN(const std::string piece, TextMember(part, "text"));
    text += piece;
  }
  return text;
}

absl::Status AddMessages(const Json& messages, PromptRequest& request) {
  if (!messages.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("\"messages\" is %s, want an array", messages.type_name()));
  }
  bool has_query = false;
  for (const Json& message : messages) {
    if (!message.is_object()) {
      return absl::InvalidArgumentError("\"messages\" holds an entry that is no object");
    }
    ASSIGN_OR_RETURN(const std::string role, TextMember(message, "role"));
    if (role != "system" && role != "user") continue;
    ASSIGN_OR_RETURN(std::string text, MessageText(message));
    if (role == "user") has_query = true;
    (role == "user" ? request.query : request.system) = std::move(text);
  }
  if (!has_query) return absl::InvalidArgumentError("\"messages\" holds no user message");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> CompactTools(const Json& tools) {
  if (tools.is_null()) return std::string();
  if (!tools.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tools: %s, want an array of objects", tools.type_name()));
  }
  Json compact = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!tools[i].is_object()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tools: entry %d is %s, want an object", i, tools[i].type_name()));
    }
    compact.push_back(Unwrapped(tools[i]));
  }
  return compact.empty() ? std::string() : base::DumpJson(compact);
}

absl::StatusOr<std::string> CompactTools(std::string_view text) {
  if (text.empty()) return std::string();
  const absl::StatusOr<Json> tools = base::ParseJson(text);
  if (!tools.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("tools: ", tools.status().message()));
  }
  return CompactTools(*tools);
}

absl::StatusOr<PromptRequest> RequestFromJson(const Json& line) {
  if (!line.is_object()) {
    return absl::InvalidArgumentError(absl::StrFormat("%s, want an object", line.type_name()));
  }
  PromptRequest request;
  if (const auto messages = line.find("messages"); messages != line.end()) {
    RETURN_IF_ERROR(AddMessages(*messages, request));
  } else {
    if (!line.contains("query")) {
      return absl::InvalidArgumentError("neither \"query\" nor \"messages\"");
    }
    ASSIGN_OR_RETURN(request.query, TextMember(line, "query"));
    ASSIGN_OR_RETURN(request.system, TextMember(line, "system"));
  }
  if (const auto tools = line.find("tools"); tools != line.end()) {
    // Some data files hold the tools as JSON text.
    ASSIGN_OR_RETURN(request.tools,
                     tools->is_string()
                         ? CompactTools(std::string_view(tools->get_ref<const std::string&>()))
                         : CompactTools(*tools));
  }
  return request;
}

std::string RenderPrompt(const PromptRequest& request) {
  std::string text;
  if (!request.system.empty()) {
    text += "<|im_start|>system\n" + request.system + "<|im_end|>\n";
  }
  text += "<|im_start|>user\n";
  if (!request.tools.empty()) text += "<tools>" + request.tools + "</tools>\n";
  text += request.query + "<|im_end|>\n<|im_start|>assistant\n";
  return text;
}

std::vector<uint32_t> EncodePrompt(const Tokenizer& tokenizer, const PromptRequest& request) {
  std::vector<uint32_t> ids = {tokenizer.table().bos_id};
  const std::vector<uint32_t> text = tokenizer.Encode(RenderPrompt(request));
  ids.insert(ids.end(), text.begin(), text.end());
  return ids;
}

}  // namespace needle::engine
