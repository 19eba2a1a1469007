// Tokenizer attachments from arbitrary bytes. What is accepted must come out as it went in.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "format/tokenizer_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint32_t kVocab = 8192;
  const std::span<const uint8_t> bytes(data, size);
  const auto table = needle::format::TokenizerTable::Parse(bytes, kVocab);
  if (!table.ok()) return 0;
  const auto written = table->Serialize();
  if (!written.ok() || !std::equal(written->begin(), written->end(), bytes.begin(), bytes.end())) {
    std::abort();
  }
  return 0;
}
