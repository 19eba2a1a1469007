// engine/utf8.h: walking UTF-8 that may be ill-formed.
#ifndef NEEDLE_ENGINE_UTF8_H_
#define NEEDLE_ENGINE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace needle::engine {

enum class Utf8Kind : uint8_t {
  kValid,      // one code point
  kInvalid,    // a maximal ill-formed part (Unicode 15, table 3-7)
  kTruncated,  // the text ends inside what may still become a code point
};

struct Utf8Part {
  size_t length = 0;  // bytes, at least 1
  Utf8Kind kind = Utf8Kind::kValid;
};

// The part at the start of `text`, which is not empty.
Utf8Part NextUtf8(std::string_view text);

// Where the first ill-formed byte of `text` is; text.size() when there is none.
size_t FindInvalidUtf8(std::string_view text);

// `text` with each ill-formed part replaced by U+FFFD (as browsers and Python do).
std::string ReplaceInvalidUtf8(std::string_view text);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_UTF8_H_
