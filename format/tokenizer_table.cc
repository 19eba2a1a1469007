#include "format/tokenizer_table.h"

#include <array>
#include <bitset>
#include <cmath>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace needle::format {
namespace {

constexpr size_t kHeaderBytes = 24;
constexpr size_t kPieceHeaderBytes = 7;  // score, type, length
constexpr size_t kMaxPieceBytes = UINT16_MAX;

absl::Status AttachmentError(std::string_view field, uint64_t found, std::string_view wanted) {
  return absl::DataLossError(absl::StrFormat("%s: %d, want %s", field, found, wanted));
}

absl::Status PieceError(size_t id, std::string_view what) {
  return absl::DataLossError(absl::StrFormat("piece %d: %s", id, what));
}

absl::StatusOr<bool> ReadFlag(std::string_view field, uint8_t byte) {
  if (byte > 1) return AttachmentError(field, byte, "0 or 1");
  return byte == 1;
}

struct NamedId {
  std::string_view field;
  uint32_t TokenizerTable::*member;
  size_t offset;
};

constexpr auto kIds = std::to_array<NamedId>({
    {"pad_id", &TokenizerTable::pad_id, 4},
    {"eos_id", &TokenizerTable::eos_id, 8},
    {"bos_id", &TokenizerTable::bos_id, 12},
    {"unk_id", &TokenizerTable::unk_id, 16},
});
constexpr size_t kAddDummyPrefixOffset = 20;
constexpr size_t kByteFallbackOffset = 21;
constexpr size_t kReservedOffset = 22;

// Reads all but the pieces and returns their number.
absl::StatusOr<uint32_t> ReadHeader(std::span<const uint8_t> bytes, uint32_t vocab,
                                    TokenizerTable& table) {
  if (bytes.size() < kHeaderBytes) {
    return AttachmentError("size", bytes.size(),
                           absl::StrFormat("at least %d bytes", kHeaderBytes));
  }
  const auto num_pieces = base::LoadLe<uint32_t>(bytes.data());
  if (num_pieces > vocab) {
    return AttachmentError("n_pieces", num_pieces, absl::StrFormat("at most vocab, %d", vocab));
  }
  const size_t most_pieces = (bytes.size() - kHeaderBytes) / kPieceHeaderBytes;
  if (num_pieces > most_pieces) {
    return AttachmentError(
        "n_pieces", num_pieces,
        absl::StrFormat("at most %d, as many as the bytes have room for", most_pieces));
  }
  for (const NamedId& id : kIds) {
    table.*id.member = base::LoadLe<uint32_t>(&bytes[id.offset]);
    if (table.*id.member >= num_pieces) {
      return AttachmentError(id.field, table.*id.member,
                             absl::StrFormat("below n_pieces, %d", num_pieces));
    }
  }
  ASSIGN_OR_RETURN(table.add_dummy_prefix,
                   ReadFlag("add_dummy_prefix", bytes[kAddDummyPrefixOffset]));
  ASSIGN_OR_RETURN(table.byte_fallback, ReadFlag("byte_fallback", bytes[kByteFallbackOffset]));
  const auto reserved = base::LoadLe<uint16_t>(&bytes[kReservedOffset]);
  if (reserved != 0) return AttachmentError("bytes 22 and 23", reserved, "0");
  return num_pieces;
}

// Reads the piece that `rest` starts with and moves `rest` behind it.
absl::StatusOr<Piece> ReadPiece(size_t id, std::span<const uint8_t>& rest) {
  if (rest.size() < kPieceHeaderBytes) {
    return PieceError(id, absl::StrFormat("%d bytes left, want at least %d for a piece",
                                          rest.size(), kPieceHeaderBytes));
  }
  Piece piece;
  piece.score = base::LoadLe<float>(rest.data());
  const uint8_t type = rest[4];
  const size_t length = base::LoadLe<uint16_t>(&rest[5]);
  if (type > static_cast<uint8_t>(PieceType::kByte)) {
    return PieceError(id, absl::StrFormat("type %d, want 0 to 4", type));
  }
  piece.type = static_cast<PieceType>(type);
  rest = rest.subspan(kPieceHeaderBytes);
  if (length > rest.size()) {
    return PieceError(
        id, absl::StrFormat("length %d, want at most %d, the bytes left", length, rest.size()));
  }
  piece.text.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(length));
  rest = rest.subspan(length);
  return piece;
}

// The byte of "<0xHH>", upper-case as SentencePiece writes it.
std::optional<uint8_t> ByteOf(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  uint32_t value = 0;
  for (const char digit : text.substr(3, 2)) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const size_t place = kDigits.find(digit);
    if (place == std::string_view::npos) return std::nullopt;
    value = value * 16 + static_cast<uint32_t>(place);
  }
  return static_cast<uint8_t>(value);
}

absl::Status CheckPiece(size_t id, const Piece& piece) {
  if (std::isnan(piece.score)) return PieceError(id, "score is NaN, want a number");
  switch (piece.type) {
    case PieceType::kNormal:
      if (base::FindInvalidUtf8(piece.text) == piece.text.size()) return absl::OkStatus();
      return PieceError(id, "invalid UTF-8, want valid UTF-8 in a normal piece");
    case PieceType::kUserDefined:
      if (!piece.text.empty()) return absl::OkStatus();
      return PieceError(id, "length 0, want at least 1 in a user-defined piece");
    case PieceType::kByte:
      if (ByteOf(piece.text)) return absl::OkStatus();
      return PieceError(id, absl::StrFormat("%s, want <0xHH> in a byte piece", piece.text));
    case PieceType::kUnknown:
    case PieceType::kControl:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status CheckBytePieces(const TokenizerTable& table) {
  if (!table.byte_fallback) return absl::OkStatus();
  std::bitset<256> present;
  for (const Piece& piece : table.pieces) {
    if (piece.type == PieceType::kByte) present.set(*ByteOf(piece.text));
  }
  if (present.all()) return absl::OkStatus();
  size_t missing = 0;
  while (present[missing]) ++missing;
  return absl::DataLossError(
      absl::StrFormat("byte_fallback: 1 with %d of the 256 byte pieces, want all; <0x%02X> is "
                      "missing",
                      present.count(), missing));
}

}  // namespace

absl::StatusOr<TokenizerTable> TokenizerTable::Parse(std::span<const uint8_t> bytes,
                                                     uint32_t vocab) {
  TokenizerTable table;
  ASSIGN_OR_RETURN(const uint32_t num_pieces, ReadHeader(bytes, vocab, table));
  table.pieces.reserve(num_pieces);
  std::span<const uint8_t> rest = bytes.subspan(kHeaderBytes);
  for (uint32_t id = 0; id < num_pieces; ++id) {
    ASSIGN_OR_RETURN(Piece piece, ReadPiece(id, rest));
    RETURN_IF_ERROR(CheckPiece(id, piece));
    table.pieces.push_back(std::move(piece));
  }
  if (!rest.empty()) {
    return AttachmentError(
        "size", bytes.size(),
        absl::StrFormat("%d, the end of the last piece", bytes.size() - rest.size()));
  }
  RETURN_IF_ERROR(CheckBytePieces(table));
  return table;
}

absl::StatusOr<std::vector<uint8_t>> TokenizerTable::Serialize() const {
  std::vector<uint8_t> bytes(kHeaderBytes);
  base::StoreLe(bytes.data(), static_cast<uint32_t>(pieces.size()));
  for (const NamedId& id : kIds) base::StoreLe(&bytes[id.offset], this->*id.member);
  bytes[kAddDummyPrefixOffset] = add_dummy_prefix ? 1 : 0;
  bytes[kByteFallbackOffset] = byte_fallback ? 1 : 0;
  for (const Piece& piece : pieces) {
    if (piece.text.size() > kMaxPieceBytes) {
      return absl::InvalidArgumentError(absl::StrFormat("piece %d: length %d, want at most %d",
                                                        &piece - pieces.data(), piece.text.size(),
                                                        kMaxPieceBytes));
    }
    const size_t start = bytes.size();
    bytes.resize(start + kPieceHeaderBytes);
    base::StoreLe(&bytes[start], piece.score);
    bytes[start + 4] = static_cast<uint8_t>(piece.type);
    base::StoreLe(&bytes[start + 5], static_cast<uint16_t>(piece.text.size()));
    bytes.insert(bytes.end(), piece.text.begin(), piece.text.end());
  }
  return bytes;
}

std::span<const std::string_view> ChatMarkers(Generation generation) {
  static constexpr auto kMarkers = std::to_array<std::string_view>(
      {"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tools>", "</tools>", "<tool_call>",
       "</tool_call>", "<tool_result>", "</tool_result>",
       // Needle 3 only:
       "<context>", "</context>", "<extract>", "</extract>", "<schema>", "</schema>"});
  constexpr size_t kNeedle2Markers = 10;
  const std::span<const std::string_view> markers = kMarkers;
  return generation == Generation::kNeedle2 ? markers.first(kNeedle2Markers) : markers;
}

}  // namespace needle::format
