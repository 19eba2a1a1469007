// Pickles from arbitrary bytes.
#include <cstdint>

#include "converter/pickle_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  needle::converter::ReadPickle({data, size}).IgnoreError();
  return 0;
}
