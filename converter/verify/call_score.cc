#include "converter/verify/call_score.h"

#include <algorithm>

namespace needle::verify {
namespace {

using base::Json;

bool SameObject(const Json& a, const Json& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.items().begin(), a.items().end(), [&b](const auto& item) {
    const auto found = b.find(item.key());
    return found != b.end() && SameJson(item.value(), *found);
  });
}

// The value of `key`, or `missing`.
const Json& ValueOr(const Json& object, const char* key, const Json& missing) {
  const auto found = object.find(key);
  return found == object.end() ? missing : *found;
}

bool SameCall(const Json& a, const Json& b) {
  const Json no_name;
  const Json no_arguments = Json::object();
  return SameJson(ValueOr(a, "name", no_name), ValueOr(b, "name", no_name)) &&
         SameJson(ValueOr(a, "arguments", no_arguments), ValueOr(b, "arguments", no_arguments));
}

}  // namespace

bool SameJson(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) return SameObject(a, b);
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameJson);
  }
  return a == b;
}

CallScore ScoreCalls(const Json& wanted, const engine::Answer& answer) {
  CallScore score{.parsed = answer.parsed, .called = answer.calls.size(), .wanted = wanted.size()};
  score.exact = answer.parsed && std::equal(answer.calls.begin(), answer.calls.end(),
                                            wanted.begin(), wanted.end(), SameCall);
  return score;
}

}  // namespace needle::verify
