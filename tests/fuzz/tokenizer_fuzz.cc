// Encoding and decoding with arbitrary pieces and text. The input: a line of flags ('p' dummy
// prefix, 'b' byte fallback), then a piece a line ('!' first makes it user-defined) up to an empty
// line, then the text.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "engine/tokenizer.h"

namespace {

using needle::format::PieceType;
using needle::format::TokenizerTable;

std::string_view TakeLine(std::string_view& rest) {
  const size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

void Require(bool condition) {
  if (!condition) std::abort();
}

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

TokenizerTable MakeTable(std::string_view& rest) {
  TokenizerTable table;
  const std::string_view flags = TakeLine(rest);
  table.add_dummy_prefix = flags.find('p') != std::string_view::npos;
  table.byte_fallback = flags.find('b') != std::string_view::npos;
  const auto add = [&table](std::string text, PieceType type) {
    // Scores repeat, so that ties occur.
    const auto score = -static_cast<float>(table.pieces.size() % 5);
    table.pieces.push_back({std::move(text), score, type});
  };
  add("<unk>", PieceType::kUnknown);
  add(std::string(kSpaceMark), PieceType::kNormal);
  const std::string hex = "0123456789ABCDEF";
  for (size_t b = 0; b < 256 && table.byte_fallback; ++b) {
    add(std::string("<0x") + hex[b / 16] + hex[b % 16] + ">", PieceType::kByte);
  }
  while (!rest.empty()) {
    std::string_view line = TakeLine(rest);
    if (line.empty()) break;
    // The table's validation lets no other pieces pass.
    if (needle::base::FindInvalidUtf8(line) != line.size()) continue;
    const bool marker = line.front() == '!';
    if (marker) line.remove_prefix(1);
    if (!line.empty()) {
      add(std::string(line), marker ? PieceType::kUserDefined : PieceType::kNormal);
    }
  }
  return table;
}

std::string WithSpaces(std::string_view text) {
  std::string result(text);
  for (size_t at = 0; (at = result.find(kSpaceMark, at)) != std::string::npos; ++at) {
    result.replace(at, kSpaceMark.size(), " ");
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(data, data + size);
  std::string_view text = input;
  const needle::engine::Tokenizer tokenizer(MakeTable(text));
  const std::vector<uint32_t> ids = tokenizer.Encode(text);
  const std::string decoded = tokenizer.Decode(ids);
  Require(needle::base::FindInvalidUtf8(decoded) == decoded.size());
  for (const uint32_t id : ids) Require(id < tokenizer.table().pieces.size());
  needle::engine::StreamDecoder stream(tokenizer);
  std::string streamed;
  for (const uint32_t id : ids) streamed += stream.Push(id);
  Require(streamed + stream.Finish() == decoded);
  if (tokenizer.table().byte_fallback) {
    Require(decoded == needle::base::ReplaceInvalidUtf8(WithSpaces(text)));
  }
  return 0;
}
