// converter/verify/call_score.h: whether an answer makes the calls that were wanted.
#ifndef NEEDLE_CONVERTER_VERIFY_CALL_SCORE_H_
#define NEEDLE_CONVERTER_VERIFY_CALL_SCORE_H_

#include <cstddef>

#include "base/json.h"
#include "engine/tool_calls.h"

namespace needle::verify {

// Equality of JSON values: keys in any order, numbers by value (1 equals 1.0), all else exact.
bool SameJson(const base::Json& a, const base::Json& b);

struct CallScore {
  bool parsed = false;  // a list of calls was found
  bool exact = false;   // the same names and arguments in the same order
  size_t called = 0;
  size_t wanted = 0;
};

// `wanted`: an array of {name, arguments}. A call without arguments has none: {}. Other keys of a
// call are not read.
CallScore ScoreCalls(const base::Json& wanted, const engine::Answer& answer);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_CALL_SCORE_H_
