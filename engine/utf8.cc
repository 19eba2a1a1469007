#include "engine/utf8.h"

namespace needle::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What may follow a lead byte: how many bytes, and the bounds of the first of them.
struct Lead {
  size_t continuations;
  uint8_t low;
  uint8_t high;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {0, 0x80, 0xBF};
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};  // never a lead
}

}  // namespace

Utf8Part NextUtf8(std::string_view text) {
  Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  if (lead.high == 0) return {1, Utf8Kind::kInvalid};
  for (size_t i = 1; i <= lead.continuations; ++i) {
    if (i == text.size()) return {i, Utf8Kind::kTruncated};
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < lead.low || byte > lead.high) return {i, Utf8Kind::kInvalid};
    lead.low = 0x80;
    lead.high = 0xBF;
  }
  return {lead.continuations + 1, Utf8Kind::kValid};
}

size_t FindInvalidUtf8(std::string_view text) {
  size_t place = 0;
  while (place < text.size()) {
    const Utf8Part part = NextUtf8(text.substr(place));
    if (part.kind != Utf8Kind::kValid) return place;
    place += part.length;
  }
  return place;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Part part = NextUtf8(text);
    result += part.kind == Utf8Kind::kValid ? text.substr(0, part.length) : kReplacement;
    text.remove_prefix(part.length);
  }
  return result;
}

}  // namespace needle::engine
