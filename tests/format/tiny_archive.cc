#include "tests/format/tiny_archive.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/endian.h"
#include "base/half.h"

namespace needle::format {
namespace {

// "Codebooks": cb2 | cb3 | cb4 as f32 bit patterns.
constexpr std::array<uint32_t, kCodebookLength> kCodebookBits = {
    0xbe085e47, 0xbd237060, 0x3d23fc09, 0x3e08a9db,  //
    0xbe41cdbb, 0xbdf16db0, 0xbd87797d, 0xbcac246c, 0x3cb50d39, 0x3d88c69c, 0x3df23363,
    0x3e4261c1,  //
    0xbe7547c2, 0xbe390b02, 0xbe105747, 0xbddf41f9, 0xbda6f045, 0xbd67898a, 0xbd06eb34, 0xbc25be0a,
    0x3c5040f6, 0x3d124277, 0x3d738a80, 0x3dae086f, 0x3de6e514, 0x3e142b6e, 0x3e3ca926, 0x3e781699};

constexpr uint8_t kIndexByte = 0x0D;  // crumbs 1, 3, 0, 0: valid for ternary, too

void FillFloats(const TensorSpec& spec, std::span<uint8_t> blob) {
  if (spec.dtype == DType::kF32) {
    const size_t n = blob.size() / 4;
    for (size_t i = 0; i < n; ++i) base::StoreLe(&blob[4 * i], static_cast<float>(n - 1 - i));
    return;
  }
  for (size_t i = 0; i < blob.size() / 2; ++i) {
    base::StoreLe(&blob[2 * i], base::F16FromF32(static_cast<float>(i % 64) / 4));
  }
}

void FillCq(const Record& record, std::span<uint8_t> blob) {
  const auto layout = CqLayout::Make(record.shape[0], record.shape[1], record.group,
                                     *WidthFromRecordBits(record.bits));
  std::fill_n(blob.begin(), layout->norms_offset, kIndexByte);
  for (size_t at = layout->norms_offset; at < blob.size(); at += 2) {
    base::StoreLe(&blob[at], base::F16FromF32(1));
  }
}

void FillManifest(Generation generation, const std::vector<HeadShape>& heads,
                  std::span<uint8_t> blob) {
  for (size_t i = 0; i < heads.size(); ++i) {
    const auto code = static_cast<float>(HeadCode(generation, heads[i].kind));
    base::StoreLe(&blob[2 * i], base::F16FromF32(code));
  }
}

std::vector<Width> WidthsInTurn(const Schema& schema) {
  std::vector<Width> widths;
  size_t turn = 0;
  for (const TensorSpec& spec : schema.tensors()) {
    const bool is_cycled = spec.dtype == DType::kCq && !IsHeadRole(spec.id.role);
    widths.push_back(is_cycled ? kAllWidths[turn++ % std::size(kAllWidths)] : Width::kCq4);
  }
  return widths;
}

ArchiveLayout LayoutOf(std::span<const uint8_t> archive) {
  const auto opened = Archive::FromBytes({archive.begin(), archive.end()}, "good");
  return {opened->header(), opened->schema(), opened->records(), archive.size()};
}

}  // namespace

Geometry TinyGeometry(Generation generation) {
  const bool is_needle3 = generation == Generation::kNeedle3;
  Geometry g;
  g.generation = generation;
  g.kv_window = 160;
  g.vocab = 8;
  g.out_vocab = is_needle3 ? 7 : 8;
  g.d_model = 6;
  g.num_heads = 2;
  g.num_kv_heads = 1;
  g.num_layers = 2;
  g.qk_head_dim = is_needle3 ? 2 : 4;
  g.v_head_dim = 4;
  g.max_seq_len = 64;
  g.hada_n = 8;
  g.mhc_lanes = 2;
  g.engram_slots = 5;
  g.engram_sub_dim = 3;
  g.num_engram_tables = 2;
  g.engram_conv_taps = 4;
  g.engram_conv_dilation = 3;
  g.engram_orders = {2, 3};
  g.engram_sites = {0, 1};
  g.rope_theta = 10000;
  if (!is_needle3) return g;
  g.sliding_window = 4;
  g.global_mask = 2;
  g.qkv_conv_taps = 2;
  g.engram_seed_heads = 1;
  return g;
}

std::vector<HeadShape> TinyHeads(Generation generation) {
  if (generation == Generation::kNeedle2) {
    return {{HeadKind::kContrastive, 2, 0, 5}, {HeadKind::kConfidence, 3, 0, 1}};
  }
  return {{HeadKind::kEmbedding, 1, 2, 5},
          {HeadKind::kConfidence, 2, 1, 1},
          {HeadKind::kRouter, 1, 1, 3}};
}

TokenizerTable TinyTokenizer() {
  TokenizerTable table;
  table.pad_id = 0;
  table.eos_id = 1;
  table.bos_id = 2;
  table.unk_id = 3;
  table.pieces = {{"<pad>", 0, PieceType::kControl}, {"</s>", 0, PieceType::kControl},
                  {"<s>", 0, PieceType::kControl},   {"<unk>", 0, PieceType::kUnknown},
                  {"a", -1, PieceType::kNormal},     {"\xE2\x96\x81", -2, PieceType::kNormal}};
  return table;
}

std::vector<uint8_t> MakeArchive(const Geometry& geometry, const std::vector<HeadShape>& heads,
                                 std::span<const uint8_t> tokenizer) {
  const auto schema = Schema::Make(geometry, heads, !tokenizer.empty());
  const auto layout =
      ArchiveLayout::Make(geometry, *schema, WidthsInTurn(*schema), tokenizer.size());
  std::vector<uint8_t> bytes = SerializeHeader(layout->header);
  size_t place = bytes.size();
  bytes.resize(layout->file_bytes);
  for (const uint32_t value : kCodebookBits) {
    base::StoreLe(&bytes[place], value);
    place += 4;
  }
  for (size_t i = 0; i < layout->records.size(); ++i, place += kRecordBytes) {
    const Record& record = layout->records[i];
    const TensorSpec& spec = schema->tensors()[i];
    SerializeRecord(record, std::span(bytes).subspan(place).first<kRecordBytes>());
    const auto blob = std::span(bytes).subspan(record.offset, record.num_bytes);
    if (spec.id.role == TensorRole::kHeadsManifest) {
      FillManifest(geometry.generation, heads, blob);
    } else if (spec.dtype == DType::kCq) {
      FillCq(record, blob);
    } else if (spec.dtype == DType::kRaw) {
      std::copy(tokenizer.begin(), tokenizer.end(), blob.begin());
    } else {
      FillFloats(spec, blob);
    }
  }
  return bytes;
}

std::vector<uint8_t> MakeTinyArchive(Generation generation) {
  return MakeArchive(TinyGeometry(generation), TinyHeads(generation), *TinyTokenizer().Serialize());
}

size_t HeaderOffset(std::span<const uint8_t> archive, std::string_view field) {
  const auto fields = HeaderFields(LayoutOf(archive).header.geometry.generation);
  return std::find_if(fields.begin(), fields.end(),
                      [&](const HeaderField& row) { return row.name == field; })
      ->byte;
}

size_t RecordOffset(std::span<const uint8_t> archive, std::string_view tensor) {
  const ArchiveLayout layout = LayoutOf(archive);
  const size_t position = *layout.schema.FindName(tensor);
  return layout.DirectoryEnd() - (layout.records.size() - position) * kRecordBytes;
}

size_t BlobOffset(std::span<const uint8_t> archive, std::string_view tensor) {
  const ArchiveLayout layout = LayoutOf(archive);
  return layout.records[*layout.schema.FindName(tensor)].offset;
}

}  // namespace needle::format
