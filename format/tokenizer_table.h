// format/tokenizer_table.h: the tokenizer attachment. Specification: "Tokenizer attachment (RAW)".
#ifndef NEEDLE_FORMAT_TOKENIZER_TABLE_H_
#define NEEDLE_FORMAT_TOKENIZER_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/geometry.h"

namespace needle::format {

enum class PieceType : uint8_t {
  kNormal = 0,
  kUnknown = 1,
  kControl = 2,
  kUserDefined = 3,
  kByte = 4
};

struct Piece {
  std::string text;  // UTF-8 for normal pieces; "<0xHH>" for byte pieces
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct TokenizerTable {
  uint32_t pad_id = 0;
  uint32_t eos_id = 0;
  uint32_t bos_id = 0;
  uint32_t unk_id = 0;
  bool add_dummy_prefix = false;
  bool byte_fallback = false;
  std::vector<Piece> pieces;  // in id order

  // Reads and validates an attachment. `vocab`: pieces may be fewer, never more. DataLoss naming
  // the field or piece, the value found and the value wanted; nothing is allocated from a count
  // before the bytes are known to be there.
  static absl::StatusOr<TokenizerTable> Parse(std::span<const uint8_t> bytes, uint32_t vocab);

  // The attachment's bytes. InvalidArgument: a piece longer than 65535 bytes.
  absl::StatusOr<std::vector<uint8_t>> Serialize() const;
};

// The chat markers of a generation, "<|im_start|>" first.
std::span<const std::string_view> ChatMarkers(Generation generation);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_TOKENIZER_TABLE_H_
