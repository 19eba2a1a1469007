#include "converter/model_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "format/kv_window.h"

namespace needle::converter {
namespace {

using base::Json;
using format::Generation;
using format::Geometry;
using format::HeadKind;

// No dimension comes near; below it products of two fit in 64 bits and powers of two in 32.
constexpr uint32_t kMaxNumber = 1U << 30;
constexpr uint32_t kEngramConvTaps = 4;
constexpr uint32_t kEngramTargetWidth = 128;

struct SavedConfig {
  uint32_t vocab_size = 0, out_vocab = 0, d_model = 0, attn_dim = 0, num_heads = 0,
           num_kv_heads = 0, num_layers = 0, qk_head_dim = 0, v_head_dim = 0, max_seq_len = 0,
           sliding_window = 0, qkv_conv_taps = 0, engram_heads = 0, engram_seed_heads = 0,
           engram_slots = 0, mhc_lanes = 0, kv_window = 0, kv_bits = 0, embedding_dim = 0,
           contrastive_dim = 0, embedding_probes = 0, embedding_queries = 0, confidence_probes = 0,
           confidence_queries = 0, router_probes = 0, router_queries = 0;
  double rope_theta = 0;
  std::vector<uint32_t> engram_orders, engram_layers, global_layers, ladder_order, ladder_widths;
};

using Member = std::variant<uint32_t SavedConfig::*, double SavedConfig::*,
                            std::vector<uint32_t> SavedConfig::*>;
struct KeyRow {
  std::string_view name;
  std::string_view missing;
  Member member;
};

constexpr KeyRow kNeedle3Keys[] = {
    {"vocab_size", "16384", &SavedConfig::vocab_size},
    {"d_model", "768", &SavedConfig::d_model},
    {"num_heads", "12", &SavedConfig::num_heads},
    {"num_kv_heads", "2", &SavedConfig::num_kv_heads},
    {"num_layers", "20", &SavedConfig::num_layers},
    {"max_seq_len", "4096", &SavedConfig::max_seq_len},
    {"rope_theta", "100000", &SavedConfig::rope_theta},
    {"engram_orders", "[2,3]", &SavedConfig::engram_orders},
    {"engram_heads", "0", &SavedConfig::engram_heads},
    {"engram_slots", "18432", &SavedConfig::engram_slots},
    // Those that exist: FromJson drops the others.
    {"engram_layers", "[3,7,11,15,19]", &SavedConfig::engram_layers},
    {"mhc_lanes", "4", &SavedConfig::mhc_lanes},
    {"kv_window", "0", &SavedConfig::kv_window},
    {"kv_bits", "8", &SavedConfig::kv_bits},
    {"embedding_dim", "128", &SavedConfig::embedding_dim},
    {"embedding_probes", "4", &SavedConfig::embedding_probes},
    {"embedding_queries", "4", &SavedConfig::embedding_queries},
    {"confidence_probes", "4", &SavedConfig::confidence_probes},
    {"confidence_queries", "4", &SavedConfig::confidence_queries},
    {"router_probes", "4", &SavedConfig::router_probes},
    {"router_queries", "4", &SavedConfig::router_queries},
    // 0: d_model / num_heads.
    {"qk_head_dim", "0", &SavedConfig::qk_head_dim},
    {"v_head_dim", "0", &SavedConfig::v_head_dim},
    {"sliding_window", "0", &SavedConfig::sliding_window},
    {"global_layers", "[]", &SavedConfig::global_layers},
    {"engram_seed_heads", "0", &SavedConfig::engram_seed_heads},
    {"qkv_conv_taps", "0", &SavedConfig::qkv_conv_taps},
    {"out_vocab", "0", &SavedConfig::out_vocab},
    {"ladder_order", "[]", &SavedConfig::ladder_order},
    {"ladder_widths", "[]", &SavedConfig::ladder_widths},
};

constexpr KeyRow kNeedle2Keys[] = {
    {"vocab_size", "8192", &SavedConfig::vocab_size},
    {"d_model", "512", &SavedConfig::d_model},
    {"attn_dim", "0", &SavedConfig::attn_dim},  // 0: d_model
    {"num_heads", "8", &SavedConfig::num_heads},
    {"num_kv_heads", "4", &SavedConfig::num_kv_heads},
    {"num_layers", "12", &SavedConfig::num_layers},
    {"max_seq_len", "2048", &SavedConfig::max_seq_len},
    {"rope_theta", "100000", &SavedConfig::rope_theta},
    {"engram_orders", "[2,3]", &SavedConfig::engram_orders},
    {"engram_slots", "8192", &SavedConfig::engram_slots},
    {"engram_layers", "[2,15]", &SavedConfig::engram_layers},
    {"mhc_lanes", "4", &SavedConfig::mhc_lanes},
    {"kv_window", "0", &SavedConfig::kv_window},
    {"kv_bits", "8", &SavedConfig::kv_bits},
    {"contrastive_dim", "128", &SavedConfig::contrastive_dim},
    {"ladder_order", "[]", &SavedConfig::ladder_order},
};

std::span<const KeyRow> KeyRows(Generation generation) {
  if (generation == Generation::kNeedle2) return kNeedle2Keys;
  return kNeedle3Keys;
}

absl::Status KeyError(std::string_view key, const Json& value, std::string_view want) {
  return absl::DataLossError(absl::StrFormat("config key \"%s\": %s, want %s", std::string(key),
                                             base::DumpJson(value), std::string(want)));
}

absl::StatusOr<uint32_t> ToNumber(std::string_view key, const Json& value) {
  if (!value.is_number_integer() || value < 0 || value > kMaxNumber) {
    return KeyError(key, value, absl::StrCat("a whole number from 0 to ", kMaxNumber));
  }
  return value.get<uint32_t>();
}

absl::Status Assign(std::string_view key, const Json& value, const Member& member,
                    SavedConfig& saved) {
  if (const auto* number = std::get_if<uint32_t SavedConfig::*>(&member)) {
    ASSIGN_OR_RETURN(saved.*(*number), ToNumber(key, value));
    return absl::OkStatus();
  }
  if (const auto* real = std::get_if<double SavedConfig::*>(&member)) {
    if (!value.is_number()) return KeyError(key, value, "a number");
    saved.*(*real) = value.get<double>();
    return absl::OkStatus();
  }
  if (!value.is_array()) return KeyError(key, value, "a list of whole numbers");
  auto& list = saved.*std::get<std::vector<uint32_t> SavedConfig::*>(member);
  for (const Json& element : value) {
    ASSIGN_OR_RETURN(const uint32_t number, ToNumber(key, element));
    list.push_back(number);
  }
  return absl::OkStatus();
}

absl::StatusOr<SavedConfig> ReadKeys(const Json& config, Generation generation) {
  SavedConfig saved;
  for (const KeyRow& row : KeyRows(generation)) {
    const auto found = config.find(std::string(row.name));
    if (found != config.end()) {
      RETURN_IF_ERROR(Assign(row.name, *found, row.member, saved));
      continue;
    }
    ASSIGN_OR_RETURN(const Json missing, base::ParseJson(row.missing));
    RETURN_IF_ERROR(Assign(row.name, missing, row.member, saved));
  }
  return saved;
}

// Variants that training code had and no archive can express.
absl::Status RefuseVariants(const Json& config) {
  constexpr std::pair<const char*, const char*> kTexts[] = {{"attention_gate", "elementwise"},
                                                            {"hada_factor_mode", "shared"}};
  for (const auto& [key, value] : kTexts) {
    const auto found = config.find(key);
    if (found == config.end() || *found == value) continue;
    return absl::UnimplementedError(
        absl::StrFormat("config key \"%s\": %s; archives only hold models with \"%s\"", key,
                        base::DumpJson(*found), value));
  }
  for (const char* key : {"engram_bank_ids", "cla_pairs"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->empty()) continue;
    return absl::UnimplementedError(absl::StrFormat(
        "config key \"%s\": %s; archives only hold models without", key, base::DumpJson(*found)));
  }
  return absl::OkStatus();
}

absl::Status CheckDivisors(const SavedConfig& saved) {
  if (saved.d_model == 0) return KeyError("d_model", saved.d_model, "at least 1");
  if (saved.num_heads == 0) return KeyError("num_heads", saved.num_heads, "at least 1");
  for (const uint32_t layer : saved.global_layers) {
    if (layer < saved.num_layers && layer < format::kMaxLayers) continue;
    return KeyError("global_layers", saved.global_layers,
                    absl::StrCat("layers below num_layers, ", saved.num_layers));
  }
  return absl::OkStatus();
}

absl::Status SetEngram(const SavedConfig& saved, Geometry& geometry) {
  geometry.engram_slots = saved.engram_slots;
  geometry.engram_conv_taps = kEngramConvTaps;
  geometry.engram_seed_heads = saved.engram_seed_heads;
  geometry.engram_orders = saved.engram_orders;
  geometry.engram_sites = saved.engram_layers;
  if (saved.engram_orders.empty()) return absl::OkStatus();
  const uint64_t orders = saved.engram_orders.size();
  const uint64_t heads = saved.engram_heads > 0
                             ? saved.engram_heads
                             : std::max<uint64_t>(1, saved.d_model / (orders * kEngramTargetWidth));
  if (orders * heads > saved.d_model) {
    return KeyError("engram_heads", saved.engram_heads,
                    "at most d_model tables, one for each order and head");
  }
  geometry.num_engram_tables = static_cast<uint32_t>(orders * heads);
  geometry.engram_sub_dim = saved.d_model / geometry.num_engram_tables;
  geometry.engram_conv_dilation =
      *std::max_element(saved.engram_orders.begin(), saved.engram_orders.end());
  return absl::OkStatus();
}

void SetAttention(const SavedConfig& saved, Generation generation, Geometry& geometry) {
  geometry.num_heads = saved.num_heads;
  geometry.num_kv_heads = saved.num_kv_heads;
  geometry.sliding_window = saved.sliding_window;
  geometry.qkv_conv_taps = saved.qkv_conv_taps;
  for (const uint32_t layer : saved.global_layers) geometry.global_mask |= uint64_t{1} << layer;
  if (generation == Generation::kNeedle2) {
    const uint32_t width = saved.attn_dim > 0 ? saved.attn_dim : saved.d_model;
    geometry.qk_head_dim = geometry.v_head_dim = width / saved.num_heads;
    return;
  }
  const uint32_t even = saved.d_model / saved.num_heads;
  geometry.qk_head_dim = saved.qk_head_dim > 0 ? saved.qk_head_dim : even;
  geometry.v_head_dim = saved.v_head_dim > 0 ? saved.v_head_dim : even;
}

absl::StatusOr<Geometry> ToGeometry(const SavedConfig& saved, Generation generation) {
  RETURN_IF_ERROR(CheckDivisors(saved));
  Geometry geometry;
  geometry.generation = generation;
  geometry.kv_bits = saved.kv_bits > 0 ? saved.kv_bits : 8;
  geometry.vocab = saved.vocab_size;
  geometry.out_vocab = generation == Generation::kNeedle2 ? saved.vocab_size : saved.out_vocab;
  geometry.d_model = saved.d_model;
  geometry.num_layers = saved.num_layers;
  geometry.max_seq_len = saved.max_seq_len;
  geometry.hada_n = format::NextPowerOfTwo(saved.d_model);
  geometry.mhc_lanes = saved.mhc_lanes;
  geometry.rope_theta = static_cast<float>(saved.rope_theta);
  SetAttention(saved, generation, geometry);
  RETURN_IF_ERROR(SetEngram(saved, geometry));
  const absl::Status runs = format::CheckGeometry(geometry);
  if (!runs.ok()) return base::WithContext(runs, "config");
  geometry.kv_window = format::EffectiveKvWindow(geometry, saved.kv_window);
  return geometry;
}

std::array<format::HeadShape, 4> ToHeads(const SavedConfig& saved) {
  constexpr uint32_t kRouterOutputs = 3;
  std::array<format::HeadShape, 4> heads;
  const auto set = [&](HeadKind kind, uint32_t probes, uint32_t queries, uint32_t out) {
    heads[static_cast<size_t>(kind)] = {
        .kind = kind, .probes = probes, .queries = queries, .out = out};
  };
  set(HeadKind::kEmbedding, saved.embedding_probes, saved.embedding_queries, saved.embedding_dim);
  set(HeadKind::kConfidence, saved.confidence_probes, saved.confidence_queries, 1);
  set(HeadKind::kRouter, saved.router_probes, saved.router_queries, kRouterOutputs);
  set(HeadKind::kContrastive, 0, 0, saved.contrastive_dim);
  return heads;
}

absl::Status CheckLadderOrder(const SavedConfig& saved) {
  std::vector<uint32_t> sorted = saved.ladder_order;
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = sorted.empty() || sorted.size() == saved.num_layers;
  for (size_t i = 0; i < sorted.size() && is_permutation; ++i) is_permutation = sorted[i] == i;
  if (is_permutation) return absl::OkStatus();
  return KeyError("ladder_order", saved.ladder_order,
                  absl::StrCat("a permutation of the ", saved.num_layers, " layers"));
}

std::vector<ConfigKey> PublicKeys(Generation generation) {
  std::vector<ConfigKey> keys;
  for (const KeyRow& row : KeyRows(generation)) keys.push_back({row.name, row.missing});
  return keys;
}

}  // namespace

std::span<const ConfigKey> ConfigKeys(Generation generation) {
  static const std::vector<ConfigKey> needle2 = PublicKeys(Generation::kNeedle2);
  static const std::vector<ConfigKey> needle3 = PublicKeys(Generation::kNeedle3);
  return generation == Generation::kNeedle2 ? needle2 : needle3;
}

absl::StatusOr<ModelConfig> ModelConfig::FromJson(const Json& config) {
  RETURN_IF_ERROR(RefuseVariants(config));
  const bool is_needle2 = config.contains("attn_dim") && !config.contains("qk_head_dim");
  const Generation generation = is_needle2 ? Generation::kNeedle2 : Generation::kNeedle3;
  ASSIGN_OR_RETURN(SavedConfig saved, ReadKeys(config, generation));
  if (generation == Generation::kNeedle3 && !config.contains("engram_layers")) {
    std::erase_if(saved.engram_layers, [&](uint32_t layer) { return layer >= saved.num_layers; });
  }
  RETURN_IF_ERROR(CheckLadderOrder(saved));
  ModelConfig result;
  ASSIGN_OR_RETURN(result.geometry, ToGeometry(saved, generation));
  result.kv_window = saved.kv_window;
  result.ladder_order = std::move(saved.ladder_order);
  result.split_permutations = !saved.ladder_widths.empty();
  result.heads = ToHeads(saved);
  return result;
}

}  // namespace needle::converter
