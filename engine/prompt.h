// engine/prompt.h: requests to prompt text. Specification: "Prompt".
#ifndef NEEDLE_ENGINE_PROMPT_H_
#define NEEDLE_ENGINE_PROMPT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "engine/tokenizer.h"

namespace needle::engine {

struct PromptRequest {
  std::string system = {};  // empty: no system turn
  std::string tools = {};   // compact JSON; empty: no tools
  std::string query = {};
};

// The tools as the prompt holds them: compact JSON, non-ASCII kept, \uXXXX escapes undone.
// OpenAI-style entries {"type": "function", "function": {...}} are unwrapped. `text` empty: no
// tools. InvalidArgument: not JSON, not an array of objects, a lone surrogate; with the byte
// offset.
absl::StatusOr<std::string> CompactTools(std::string_view text);
absl::StatusOr<std::string> CompactTools(const base::Json& tools);

// A line of a data file: {query, tools[, system, ...]}, or {messages[, tools]} in chat style, where
// the last user message is the query and a system message the system text. InvalidArgument naming
// the key.
absl::StatusOr<PromptRequest> RequestFromJson(const base::Json& line);

// The prompt's text after BOS.
std::string RenderPrompt(const PromptRequest& request);
// BOS and the encoded text.
std::vector<uint32_t> EncodePrompt(const Tokenizer& tokenizer, const PromptRequest& request);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_PROMPT_H_
