// engine/tool_calls.h: what an answer says. Specification: "Prompt", the answer.
#ifndef NEEDLE_ENGINE_TOOL_CALLS_H_
#define NEEDLE_ENGINE_TOOL_CALLS_H_

#include <string>
#include <string_view>

#include "base/json.h"

namespace needle::engine {

struct Answer {
  std::string think;    // the text between <think> and </think>, without the line ends around it
  bool parsed = false;  // a <tool_call>[...]</tool_call> with a JSON array of objects was found
  base::Json calls = base::Json::array();  // that array; empty when not parsed
  std::string error;                       // why not parsed
  std::string text;                        // outside think and tool_call, without markers
};

// Never fails: an answer that cannot be read has parsed == false and says why. The closing
// </tool_call> may be missing when the array itself is complete.
Answer ParseAnswer(std::string_view text);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_TOOL_CALLS_H_
