#include "converter/sentencepiece_reader.h"

#include <sentencepiece_processor.h>

namespace needle::converter {

bool ReadSentencePieceModel(std::string_view bytes, SentencePieceModel& model, std::string& error) {
  sentencepiece::SentencePieceProcessor processor;
  const sentencepiece::util::Status status = processor.LoadFromSerializedProto(bytes);
  if (!status.ok()) {
    error = status.ToString();
    return false;
  }
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    model.pieces.push_back({.text = processor.IdToPiece(id),
                            .score = processor.GetScore(id),
                            .is_unknown = processor.IsUnknown(id),
                            .is_control = processor.IsControl(id),
                            .is_byte = processor.IsByte(id),
                            .is_unused = processor.IsUnused(id)});
  }
  model.pad_id = processor.pad_id();
  model.eos_id = processor.eos_id();
  model.bos_id = processor.bos_id();
  model.unk_id = processor.unk_id();
  return true;
}

}  // namespace needle::converter
