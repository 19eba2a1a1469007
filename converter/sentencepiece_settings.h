// converter/sentencepiece_settings.h: what libsentencepiece's interface does not tell of a model.
// Field numbers are those of sentencepiece_model.proto.
#ifndef NEEDLE_CONVERTER_SENTENCEPIECE_SETTINGS_H_
#define NEEDLE_CONVERTER_SENTENCEPIECE_SETTINGS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace needle::converter {

enum class SentencePieceAlgorithm : uint64_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

// Defaults are those of the proto: what a model that does not say has.
struct SentencePieceSettings {
  SentencePieceAlgorithm algorithm = SentencePieceAlgorithm::kUnigram;
  bool whitespace_as_suffix = false;
  std::string normalizer_name;
  bool has_normalizer_rules = false;
  bool has_denormalizer_rules = false;
  bool add_dummy_prefix = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;
  std::vector<bool> is_user_defined;  // of each piece
};

// Reads the bytes of a .model file. DataLoss: not the wire format.
absl::StatusOr<SentencePieceSettings> ReadSentencePieceSettings(std::span<const uint8_t> bytes);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_SENTENCEPIECE_SETTINGS_H_
