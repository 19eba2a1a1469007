#include "converter/verify/archive_diff.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/status_macros.h"
#include "converter/verify/archive_summary.h"
#include "converter/verify/golden_file.h"
#include "format/tokenizer_table.h"
#include "quant/pack.h"

namespace needle::verify {
namespace {

constexpr char kNone[] = "-";

std::vector<ValueDifference> DiffHeaders(const format::Header& a, const format::Header& b) {
  if (a.geometry.generation != b.geometry.generation) {
    return {{"generation", format::GenerationName(a.geometry.generation),
             format::GenerationName(b.geometry.generation)}};
  }
  const std::vector<NamedValue> fields_a = HeaderTexts(a), fields_b = HeaderTexts(b);
  std::vector<ValueDifference> differences;
  for (size_t i = 0; i < fields_a.size(); ++i) {
    if (fields_a[i].value != fields_b[i].value) {
      differences.push_back({fields_a[i].name, fields_a[i].value, fields_b[i].value});
    }
  }
  return differences;
}

std::vector<ValueDifference> DiffCodebooks(std::span<const float> a, std::span<const float> b) {
  std::vector<ValueDifference> differences;
  const auto text = [](std::span<const float> entries, size_t i) {
    return i < entries.size() ? absl::StrFormat("%.9g", static_cast<double>(entries[i])) : kNone;
  };
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const bool same = i < a.size() && i < b.size() &&
                      std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]);
    if (!same) differences.push_back({absl::StrCat("codebooks[", i, "]"), text(a, i), text(b, i)});
  }
  return differences;
}

std::string PieceText(const format::TokenizerTable& table, size_t i) {
  if (i >= table.pieces.size()) return kNone;
  const format::Piece& piece = table.pieces[i];
  return absl::StrFormat("'%s' type %d score %.9g", piece.text, static_cast<int>(piece.type),
                         static_cast<double>(piece.score));
}

absl::StatusOr<std::vector<ValueDifference>> DiffTokenizers(const format::Archive& a,
                                                            const format::Archive& b) {
  const auto bytes_a = a.Tokenizer(), bytes_b = b.Tokenizer();
  if (!bytes_a || !bytes_b) {
    if (bytes_a.has_value() == bytes_b.has_value()) return std::vector<ValueDifference>();
    const auto text = [](bool there) { return there ? "there" : kNone; };
    return std::vector<ValueDifference>{
        {"tokenizer", text(bytes_a.has_value()), text(bytes_b.has_value())}};
  }
  if (std::ranges::equal(*bytes_a, *bytes_b)) return std::vector<ValueDifference>();
  ASSIGN_OR_RETURN(const auto table_a, format::TokenizerTable::Parse(*bytes_a, a.geometry().vocab));
  ASSIGN_OR_RETURN(const auto table_b, format::TokenizerTable::Parse(*bytes_b, b.geometry().vocab));
  std::vector<ValueDifference> differences;
  const auto add = [&](const char* name, uint64_t value_a, uint64_t value_b) {
    if (value_a != value_b) {
      differences.push_back({name, absl::StrCat(value_a), absl::StrCat(value_b)});
    }
  };
  add("n_pieces", table_a.pieces.size(), table_b.pieces.size());
  add("pad_id", table_a.pad_id, table_b.pad_id);
  add("eos_id", table_a.eos_id, table_b.eos_id);
  add("bos_id", table_a.bos_id, table_b.bos_id);
  add("unk_id", table_a.unk_id, table_b.unk_id);
  add("add_dummy_prefix", table_a.add_dummy_prefix, table_b.add_dummy_prefix);
  add("byte_fallback", table_a.byte_fallback, table_b.byte_fallback);
  for (size_t i = 0; i < std::max(table_a.pieces.size(), table_b.pieces.size()); ++i) {
    std::string piece_a = PieceText(table_a, i), piece_b = PieceText(table_b, i);
    if (piece_a == piece_b) continue;
    differences.push_back({absl::StrCat("piece ", i), std::move(piece_a), std::move(piece_b)});
  }
  return differences;
}

// The place of an f16 among all of them in ascending order, so that neighbours differ by 1.
int32_t F16Place(uint16_t bits) {
  const int32_t magnitude = bits & 0x7FFF;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

void DiffNorms(const format::CqView& a, const format::CqView& b, TensorDifference& difference) {
  uint64_t changed = 0;
  for (size_t i = 0; i + 1 < a.norms.size(); i += 2) {
    const int32_t step = std::abs(F16Place(base::LoadLe<uint16_t>(&a.norms[i])) -
                                  F16Place(base::LoadLe<uint16_t>(&b.norms[i])));
    if (step == 0) continue;
    ++changed;
    difference.largest_norm_step =
        std::max(difference.largest_norm_step, static_cast<uint64_t>(step));
  }
  difference.norms_changed = changed;
}

void DiffIndices(const format::CqView& a, const format::CqView& b, TensorDifference& difference) {
  std::vector<uint8_t> codes_a(a.layout.padded_cols), codes_b(a.layout.padded_cols);
  uint64_t flipped = 0;
  for (uint64_t row = 0; row < a.layout.rows; ++row) {
    const size_t offset = row * a.layout.row_bytes;
    const auto packed_a = a.indices.subspan(offset, a.layout.row_bytes);
    const auto packed_b = b.indices.subspan(offset, a.layout.row_bytes);
    if (std::ranges::equal(packed_a, packed_b)) continue;
    quant::UnpackRow(a.width, packed_a, codes_a);
    quant::UnpackRow(b.width, packed_b, codes_b);
    for (size_t i = 0; i < codes_a.size(); ++i) flipped += codes_a[i] != codes_b[i] ? 1U : 0U;
  }
  difference.indices_flipped = flipped;
}

void DiffValues(std::span<const float> a, std::span<const float> b, TensorDifference& difference) {
  uint64_t changed = 0;
  double error = 0, square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double value_a = static_cast<double>(a[i]), value_b = static_cast<double>(b[i]);
    changed += value_a != value_b ? 1U : 0U;
    error += (value_b - value_a) * (value_b - value_a);
    square += value_a * value_a;
  }
  difference.values_changed = changed;
  difference.nmse = error == 0    ? 0
                    : square == 0 ? std::numeric_limits<double>::infinity()
                                  : error / square;
}

bool SameStorage(const format::CqView& a, const format::CqView& b) {
  return a.width == b.width && a.group == b.group;
}

// Nothing when the tensors store the same bytes in the same way and decode alike.
absl::StatusOr<std::optional<TensorDifference>> DiffTensors(const format::Archive& a, size_t i,
                                                            const format::Archive& b, size_t j) {
  const format::TensorSpec &spec_a = a.schema().tensors()[i], &spec_b = b.schema().tensors()[j];
  TensorDifference difference{.name = spec_a.name,
                              .kind_a = KindName(a.records()[i]),
                              .kind_b = KindName(b.records()[j]),
                              .shape_a = format::ShapeText(spec_a.shape),
                              .shape_b = format::ShapeText(spec_b.shape)};
  const bool same_bytes = std::ranges::equal(a.Blob(i), b.Blob(j));
  if (spec_a.shape != spec_b.shape) return difference;
  const bool cq = spec_a.dtype == format::DType::kCq && spec_b.dtype == format::DType::kCq;
  if (cq && SameStorage(a.Cq(i), b.Cq(j))) {
    const format::CqView view_a = a.Cq(i), view_b = b.Cq(j);
    // The codebook is part of what the bytes mean.
    if (same_bytes && std::ranges::equal(view_a.codebook, view_b.codebook)) return std::nullopt;
    DiffIndices(view_a, view_b, difference);
    DiffNorms(view_a, view_b, difference);
  } else if (same_bytes && a.records()[i].dtype == b.records()[j].dtype && !cq) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const std::vector<float> values_a, DecodeTensor(a, i));
  ASSIGN_OR_RETURN(const std::vector<float> values_b, DecodeTensor(b, j));
  DiffValues(values_a, values_b, difference);
  return difference;
}

absl::Status DiffAllTensors(const format::Archive& a, const format::Archive& b, ArchiveDiff& diff) {
  const auto& tensors_a = a.schema().tensors();
  for (size_t i = 0; i < tensors_a.size(); ++i) {
    if (tensors_a[i].dtype == format::DType::kRaw) continue;  // DiffTokenizers
    const auto j = b.schema().FindName(tensors_a[i].name);
    if (!j) {
      diff.only_in_a.push_back(tensors_a[i].name);
      continue;
    }
    ++diff.tensors_compared;
    ASSIGN_OR_RETURN(std::optional<TensorDifference> difference, DiffTensors(a, i, b, *j));
    if (difference) diff.tensors.push_back(*std::move(difference));
  }
  for (const format::TensorSpec& spec : b.schema().tensors()) {
    if (spec.dtype != format::DType::kRaw && !a.schema().FindName(spec.name)) {
      diff.only_in_b.push_back(spec.name);
    }
  }
  return absl::OkStatus();
}

DiffVerdict Judge(const ArchiveDiff& diff) {
  const bool same_values =
      std::all_of(diff.tensors.begin(), diff.tensors.end(),
                  [](const TensorDifference& tensor) { return tensor.values_changed == 0U; });
  return same_values && diff.header.empty() && diff.only_in_a.empty() && diff.only_in_b.empty()
             ? DiffVerdict::kSameWeights
             : DiffVerdict::kDifferent;
}

}  // namespace

std::string DiffVerdictText(DiffVerdict verdict) {
  switch (verdict) {
    case DiffVerdict::kByteIdentical:
      return "byte-identical";
    case DiffVerdict::kSameWeights:
      return "same weights";
    case DiffVerdict::kDifferent:
      break;
  }
  return "different";
}

absl::StatusOr<ArchiveDiff> DiffArchives(const format::Archive& a, const format::Archive& b) {
  ArchiveDiff diff;
  if (std::ranges::equal(a.bytes(), b.bytes())) {
    diff.verdict = DiffVerdict::kByteIdentical;
    diff.tensors_compared = a.records().size();
    return diff;
  }
  diff.header = DiffHeaders(a.header(), b.header());
  diff.codebooks = DiffCodebooks(a.codebooks(), b.codebooks());
  ASSIGN_OR_RETURN(diff.tokenizer, DiffTokenizers(a, b));
  RETURN_IF_ERROR(DiffAllTensors(a, b, diff));
  diff.verdict = Judge(diff);
  return diff;
}

}  // namespace needle::verify
