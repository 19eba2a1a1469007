// tests/support/random_archive.h: archives of any geometry with random weights that run well, for
// tests and benchmarks that need a shape and not a model.
#ifndef NEEDLE_TESTS_SUPPORT_RANDOM_ARCHIVE_H_
#define NEEDLE_TESTS_SUPPORT_RANDOM_ARCHIVE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/endian.h"
#include "base/half.h"
#include "base/legacy_random.h"
#include "format/geometry.h"
#include "format/hada_permutation.h"
#include "format/layer_selection.h"
#include "format/record.h"
#include "format/schema.h"
#include "format/tokenizer_table.h"
#include "quant/bit_map.h"
#include "quant/codebook.h"

namespace needle::tests {

// The shipped models' geometries. Specification: "Needle 3 header", "Needle 2 header".
inline format::Geometry ShippedNeedle3() {
  return {.generation = format::Generation::kNeedle3,
          .kv_window = 256,
          .kv_bits = 8,
          .vocab = 8192,
          .out_vocab = 8192,
          .d_model = 768,
          .num_heads = 12,
          .num_kv_heads = 2,
          .num_layers = 20,
          .qk_head_dim = 48,
          .v_head_dim = 64,
          .max_seq_len = 8192,
          .hada_n = 1024,
          .mhc_lanes = 4,
          .sliding_window = 1024,
          .global_mask = 1U << 4 | 1U << 9 | 1U << 14 | 1U << 19,
          .qkv_conv_taps = 3,
          .engram_slots = 18432,
          .engram_sub_dim = 128,
          .num_engram_tables = 6,
          .engram_conv_taps = 4,
          .engram_conv_dilation = 3,
          .engram_seed_heads = 0,
          .engram_orders = {2, 3},
          .engram_sites = {3, 7, 11, 15, 19},
          .rope_theta = 100000.0F};
}

inline format::Geometry ShippedNeedle2() {
  return {.generation = format::Generation::kNeedle2,
          .kv_window = 256,
          .kv_bits = 8,
          .vocab = 8192,
          .out_vocab = 8192,
          .d_model = 512,
          .num_heads = 8,
          .num_kv_heads = 4,
          .num_layers = 27,
          .qk_head_dim = 64,
          .v_head_dim = 64,
          .max_seq_len = 2048,
          .hada_n = 512,
          .mhc_lanes = 4,
          .sliding_window = 0,
          .global_mask = 0,
          .qkv_conv_taps = 0,
          .engram_slots = 8192,
          .engram_sub_dim = 128,
          .num_engram_tables = 4,
          .engram_conv_taps = 4,
          .engram_conv_dilation = 3,
          .engram_seed_heads = 0,
          .engram_orders = {2, 3},
          .engram_sites = {2, 15},
          .rope_theta = 10000.0F};
}

// A tokenizer of `vocab` >= 270 pieces: controls, chat markers, bytes, then words.
inline format::TokenizerTable RandomTokenizer(format::Generation generation, uint32_t vocab) {
  format::TokenizerTable table = {
      .pad_id = 0, .eos_id = 1, .bos_id = 2, .unk_id = 3, .byte_fallback = true, .pieces = {}};
  const auto add = [&table](std::string text, format::PieceType type) {
    const auto score = -static_cast<float>(table.pieces.size());
    table.pieces.push_back({std::move(text), score, type});
  };
  for (const char* text : {"<pad>", "</s>", "<s>"}) add(text, format::PieceType::kControl);
  add("<unk>", format::PieceType::kUnknown);
  for (const std::string_view marker : format::ChatMarkers(generation)) {
    add(std::string(marker), format::PieceType::kUserDefined);
  }
  const std::string hex = "0123456789ABCDEF";
  for (size_t b = 0; b < 256; ++b) {
    add(std::string("<0x") + hex[b / 16] + hex[b % 16] + ">", format::PieceType::kByte);
  }
  for (uint32_t word = 0; table.pieces.size() < vocab; ++word) {
    std::string text;
    for (uint32_t rest = word; text.empty() || rest > 0; rest /= 26) {
      text += static_cast<char>('a' + rest % 26);
      if (rest < 26) break;
    }
    add(std::move(text), format::PieceType::kNormal);
  }
  return table;
}

// The values of a tensor that is kept as floats, by what it is for.
inline std::vector<float> RandomFloats(const format::TensorSpec& spec, base::LegacyRandom& random) {
  using format::TensorRole;
  float mean = 0;
  float scale = 0.1F;
  switch (spec.id.role) {
    case TensorRole::kD1:
    case TensorRole::kD2:
    case TensorRole::kD3:
    case TensorRole::kD4:
      mean = 1;
      break;
    case TensorRole::kW1a:
    case TensorRole::kW1b:
    case TensorRole::kW2a:
    case TensorRole::kW2b:
    case TensorRole::kW3a:
    case TensorRole::kW3b:
      scale = 1.0F / std::sqrt(static_cast<float>(spec.shape[0]));
      break;
    default:
      break;
  }
  std::vector<float> values(*format::NumValues(spec.shape));
  for (float& value : values) value = mean + scale * static_cast<float>(random.NextGaussian());
  return values;
}

// The bytes of an archive with the scheme `map`, Gaussian-like weights of row length about 1 and a
// tokenizer when vocab allows one. The same arguments give the same bytes.
inline std::vector<uint8_t> RandomArchive(const format::Geometry& geometry,
                                          std::vector<format::HeadShape> heads = {},
                                          std::string_view map = quant::kShippedScheme) {
  using format::DType;
  std::vector<uint8_t> tokenizer;
  if (geometry.vocab >= 300) {
    tokenizer = *RandomTokenizer(geometry.generation, geometry.vocab).Serialize();
  }
  const auto schema = *format::Schema::Make(geometry, std::move(heads), !tokenizer.empty());
  const auto selection = *format::LayerSelection::Make(geometry, geometry.num_layers, {});
  const auto widths = *quant::BitMap::Parse(map)->Resolve(
      schema, {selection.layers, selection.sites, geometry.num_layers,
               static_cast<uint32_t>(geometry.engram_sites.size())});
  const auto layout = *format::ArchiveLayout::Make(geometry, schema, widths, tokenizer.size());

  std::vector<uint8_t> bytes(layout.file_bytes);
  const std::vector<uint8_t> header = format::SerializeHeader(layout.header);
  auto at = std::copy(header.begin(), header.end(), bytes.begin());
  for (const float value : quant::StoredCodebooks(quant::CodebookKind::kReference)) {
    base::StoreLe(&*at, value);
    at += 4;
  }
  base::LegacyRandom random(7);
  for (size_t i = 0; i < layout.records.size(); ++i) {
    const format::Record& record = layout.records[i];
    const format::TensorSpec& spec = schema.tensors()[i];
    format::SerializeRecord(record,
                            std::span<uint8_t, format::kRecordBytes>(&*at, format::kRecordBytes));
    at += format::kRecordBytes;
    const std::span<uint8_t> blob = std::span(bytes).subspan(record.offset, record.num_bytes);
    if (spec.dtype == DType::kRaw) {
      std::copy(tokenizer.begin(), tokenizer.end(), blob.begin());
    } else if (spec.dtype == DType::kF32) {
      const bool first = spec.id.role == format::TensorRole::kHadaP1;
      const auto permutation = format::HadaPermutation(
          geometry.hada_n, first ? format::kHadaP1Seed : format::kHadaP2Seed, false);
      for (size_t k = 0; k < permutation.size(); ++k) {
        base::StoreLe(&blob[k * 4], static_cast<float>(permutation[k]));
      }
    } else if (spec.dtype == DType::kF16) {
      const std::vector<float> values = RandomFloats(spec, random);
      for (size_t k = 0; k < values.size(); ++k) {
        base::StoreLe(&blob[k * 2], base::F16FromF32(values[k]));
      }
    } else {
      const auto cq =
          *format::CqLayout::Make(spec.shape[0], spec.shape[1], record.group, widths[i]);
      for (size_t k = 0; k < cq.norms_offset; ++k) {
        // No invalid ternary crumbs: those are 10 in binary.
        auto byte = static_cast<uint8_t>(random.NextU32() >> 24);
        if (widths[i] == format::Width::kTernary) byte |= (byte & 0xAA) >> 1;
        blob[k] = byte;
      }
      const float norm =
          std::sqrt(static_cast<float>(record.group) / static_cast<float>(cq.padded_cols));
      for (uint64_t k = cq.norms_offset; k < cq.num_bytes; k += 2) {
        const float jitter = 1.0F + 0.1F * static_cast<float>(random.NextGaussian());
        base::StoreLe(&blob[k], base::F16FromF32(norm * jitter));
      }
    }
  }
  return bytes;
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_RANDOM_ARCHIVE_H_
