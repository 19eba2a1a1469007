// Headers of NumPy arrays from arbitrary bytes.
#include <cstdint>

#include "converter/npy_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using needle::converter::kNpyPreambleBytes;
  if (size < kNpyPreambleBytes) return 0;
  const auto bytes = needle::converter::NpyHeaderBytes({data, kNpyPreambleBytes});
  if (!bytes.ok() || *bytes > size) return 0;
  needle::converter::ParseNpyHeader({data, *bytes}).IgnoreError();
  return 0;
}
