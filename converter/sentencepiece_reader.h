// converter/sentencepiece_reader.h: the one place that sees libsentencepiece. Its header declares
// an absl::string_view of its own, so no source that includes it may include Abseil.
#ifndef NEEDLE_CONVERTER_SENTENCEPIECE_READER_H_
#define NEEDLE_CONVERTER_SENTENCEPIECE_READER_H_

#include <string>
#include <string_view>
#include <vector>

namespace needle::converter {

struct SentencePieceEntry {
  std::string text;
  float score = 0;
  bool is_unknown = false;
  bool is_control = false;
  bool is_byte = false;
  bool is_unused = false;
};

// What the library reads out of a model, in id order. Ids are -1 when the model has none.
struct SentencePieceModel {
  std::vector<SentencePieceEntry> pieces;
  int pad_id = -1;
  int eos_id = -1;
  int bos_id = -1;
  int unk_id = -1;
};

// Fills `model` from the bytes of a .model file, or returns false and the library's reason.
bool ReadSentencePieceModel(std::string_view bytes, SentencePieceModel& model, std::string& error);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_SENTENCEPIECE_READER_H_
