// converter/verify/eval_data.h: tool-calling examples from JSON Lines. Specification: "Prompt".
#ifndef NEEDLE_CONVERTER_VERIFY_EVAL_DATA_H_
#define NEEDLE_CONVERTER_VERIFY_EVAL_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "engine/prompt.h"
#include "engine/tokenizer.h"

namespace needle::verify {

struct EvalExample {
  size_t line = 0;  // in the file, from 1
  engine::PromptRequest request = {};
  std::string reasoning = {};                // empty: none
  base::Json answers = base::Json::array();  // of {"name": text, "arguments": object}, in order
};

// One line each; blank lines are skipped. Either {query, tools, answers[, system, reasoning]} or
// chat style: {messages[, tools]}, where the last message is the assistant's and its tool_calls
// ([{"type": "function", "function": {"name", "arguments"}}]) are the answers; reasoning_content is
// the reasoning. `answers` and `arguments` may be JSON themselves or strings that hold JSON.
// DataLoss: "NAME: line N: what is wrong", with the key and the value found. Lone surrogates and
// invalid UTF-8 are wrong. `max_examples`: 0 for all.
absl::StatusOr<std::vector<EvalExample>> ParseExamples(std::string_view text,
                                                       const std::string& name,
                                                       size_t max_examples = 0);
// The same for a file. NotFound and the like as of base::MappedFile.
absl::StatusOr<std::vector<EvalExample>> ReadExamples(const std::string& path,
                                                      size_t max_examples = 0);

// The answer as it is taught, after the prompt: reasoning, calls as compact JSON, <|im_end|>.
std::string AnswerText(const EvalExample& example);

// Prompt, answer and EOS as ids, and where the answer starts.
struct TaughtTokens {
  std::vector<uint32_t> tokens = {};
  size_t answer_start = 0;
};
TaughtTokens EncodeTaught(const engine::Tokenizer& tokenizer, const EvalExample& example);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_EVAL_DATA_H_
