// base/json.h: nlohmann/json made strict, and without exceptions.
#ifndef NEEDLE_BASE_JSON_H_
#define NEEDLE_BASE_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace needle::base {

// Keeps the order of keys: reports print fields in the order in which they were set.
using Json = nlohmann::ordered_json;

// One JSON text. DataLoss: not JSON (with the byte offset), invalid UTF-8, a key given twice in an
// object (named), or nested deeper than `max_depth`. Lone surrogate escapes are refused with their
// offset.
absl::StatusOr<Json> ParseJson(std::string_view text, int max_depth = 64);

// Compact: separators "," and ":", non-ASCII kept; invalid UTF-8 becomes U+FFFD.
std::string DumpJson(const Json& value);
// Two-space indentation, otherwise the same.
std::string DumpJsonPretty(const Json& value);

}  // namespace needle::base

#endif  // NEEDLE_BASE_JSON_H_
