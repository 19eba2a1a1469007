// Bit maps from arbitrary text. What is accepted must print as text that is accepted and prints
// alike.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "quant/bit_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(data, data + size);
  const auto map = needle::quant::BitMap::Parse(text);
  if (!map.ok()) return 0;
  const auto again = needle::quant::BitMap::Parse(map->Text());
  if (!again.ok() || again->Text() != map->Text()) std::abort();
  return 0;
}
