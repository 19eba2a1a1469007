#include "converter/tokenizer_source.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mapped_file.h"
#include "base/status_macros.h"
#include "converter/sentencepiece_reader.h"
#include "converter/sentencepiece_settings.h"
#include "format/archive.h"

namespace needle::converter {
namespace {

using format::PieceType;

constexpr size_t kNumBytePieces = 256;

// Why the attachment cannot express the model, or nothing.
std::optional<std::string> Obstacle(const SentencePieceSettings& settings,
                                    const SentencePieceModel& model) {
  if (settings.algorithm != SentencePieceAlgorithm::kBpe) {
    const bool is_unigram = settings.algorithm == SentencePieceAlgorithm::kUnigram;
    return is_unigram ? "a unigram model" : "a word or character model";
  }
  if (settings.has_normalizer_rules) {
    return absl::StrFormat("normaliser \"%s\", want identity", settings.normalizer_name);
  }
  if (settings.has_denormalizer_rules) return "denormaliser rules";
  if (settings.removes_extra_spaces) return "it collapses spaces (remove_extra_whitespaces)";
  if (!settings.escapes_spaces) return "it does not escape spaces (escape_whitespaces)";
  if (settings.whitespace_as_suffix) return "spaces as suffixes (treat_whitespace_as_suffix)";
  const auto num_bytes = std::count_if(model.pieces.begin(), model.pieces.end(),
                                       [](const auto& piece) { return piece.is_byte; });
  if (num_bytes != kNumBytePieces) {
    return absl::StrFormat("%d byte pieces, want %d", num_bytes, kNumBytePieces);
  }
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].is_unused) return absl::StrFormat("piece %d is marked unused", id);
  }
  return std::nullopt;
}

PieceType TypeOf(const SentencePieceEntry& piece, bool is_user_defined,
                 std::span<const std::string_view> markers) {
  if (is_user_defined || std::find(markers.begin(), markers.end(), piece.text) != markers.end()) {
    return PieceType::kUserDefined;
  }
  if (piece.is_unknown) return PieceType::kUnknown;
  if (piece.is_control) return PieceType::kControl;
  return piece.is_byte ? PieceType::kByte : PieceType::kNormal;
}

absl::Status SetIds(const SentencePieceModel& model, format::TokenizerTable& table) {
  const auto set = [](const char* name, int id, uint32_t& target) {
    if (id < 0) return absl::UnimplementedError(absl::StrFormat("it has no %s piece", name));
    target = static_cast<uint32_t>(id);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(set("padding", model.pad_id, table.pad_id));
  RETURN_IF_ERROR(set("end-of-text", model.eos_id, table.eos_id));
  RETURN_IF_ERROR(set("begin-of-text", model.bos_id, table.bos_id));
  return set("unknown", model.unk_id, table.unk_id);
}

absl::StatusOr<format::TokenizerTable> ParseModel(std::span<const uint8_t> bytes,
                                                  format::Generation generation) {
  ASSIGN_OR_RETURN(const SentencePieceSettings settings, ReadSentencePieceSettings(bytes));
  SentencePieceModel model;
  std::string error;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!ReadSentencePieceModel(text, model, error) ||
      model.pieces.size() != settings.is_user_defined.size()) {
    return absl::DataLossError(absl::StrCat("not a SentencePiece model: ", error));
  }
  if (const auto obstacle = Obstacle(settings, model)) {
    return absl::UnimplementedError(
        absl::StrCat("an archive cannot express this tokenizer: ", *obstacle));
  }
  format::TokenizerTable table;
  table.add_dummy_prefix = settings.add_dummy_prefix;
  table.byte_fallback = true;
  RETURN_IF_ERROR(SetIds(model, table));
  const auto markers = format::ChatMarkers(generation);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceEntry& piece = model.pieces[id];
    table.pieces.push_back(
        {piece.text, piece.score, TypeOf(piece, settings.is_user_defined[id], markers)});
  }
  return table;
}

absl::StatusOr<std::vector<uint8_t>> CopyAttachment(const std::string& path, uint32_t vocab) {
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(path));
  const auto attachment = archive.Tokenizer();
  if (!attachment) {
    return absl::NotFoundError(absl::StrCat(path, ": the archive has no tokenizer"));
  }
  const auto table = format::TokenizerTable::Parse(*attachment, vocab);
  if (!table.ok()) return base::WithContext(table.status(), path);
  return std::vector<uint8_t>(attachment->begin(), attachment->end());
}

}  // namespace

absl::StatusOr<format::TokenizerTable> ReadSentencePiece(const std::string& path,
                                                         format::Generation generation) {
  ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  auto table = ParseModel(file.bytes(), generation);
  if (table.ok()) return table;
  return base::WithContext(table.status(), path);
}

absl::StatusOr<std::vector<uint8_t>> LoadTokenizer(const std::string& path,
                                                   format::Generation generation, uint32_t vocab) {
  if (absl::EndsWith(path, ".cact")) return CopyAttachment(path, vocab);
  ASSIGN_OR_RETURN(const format::TokenizerTable table, ReadSentencePiece(path, generation));
  ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, table.Serialize());
  const auto checked = format::TokenizerTable::Parse(bytes, vocab);
  if (!checked.ok()) return base::WithContext(checked.status(), path);
  return bytes;
}

}  // namespace needle::converter
