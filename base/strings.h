// base/strings.h: between std::string_view, which our interfaces use, and Debian's
// absl::string_view, a type of its own.
#ifndef NEEDLE_BASE_STRINGS_H_
#define NEEDLE_BASE_STRINGS_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace needle::base {

// Both views point at the same characters and live as long as those do.
inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace needle::base

#endif  // NEEDLE_BASE_STRINGS_H_
