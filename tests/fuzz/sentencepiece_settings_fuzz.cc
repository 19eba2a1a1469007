// The wire format of a SentencePiece model from arbitrary bytes, as far as we read it ourselves.
#include <cstdint>

#include "converter/sentencepiece_settings.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  needle::converter::ReadSentencePieceSettings({data, size}).IgnoreError();
  return 0;
}
