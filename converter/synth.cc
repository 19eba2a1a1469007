#include "converter/synth.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "converter/leaf.h"
#include "converter/leaf_map.h"
#include "converter/model_config.h"
#include "format/layer_selection.h"
#include "format/schema.h"

namespace needle::converter {
namespace {

using base::Json;
using format::Generation;
using format::TensorRole;

constexpr size_t kChunkValues = size_t{1} << 16;
// Of the heads of a Needle 2 checkpoint, which its config does not say.
constexpr uint32_t kContrastiveProbes = 4;
constexpr uint32_t kNeedle2ConfidenceProbes = 8;

struct SynthLeaf {
  std::string path;
  std::vector<uint64_t> shape;
  uint64_t num_values = 0;
  uint64_t first_value = 0;  // in the file
  float mean = 0;
  float deviation = 1;
  std::vector<float> channel_scales;  // of the last axis
};

// splitmix64: a good 64-bit number of each counter, so that chunks are independent.
uint64_t Mix(uint64_t counter) {
  uint64_t z = counter * 0x9E3779B97F4A7C15U + 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

// The sum of four uniform 16-bit numbers, made to have mean 0 and deviation 1: near enough to a
// Gaussian, and nothing but integers and one product.
float NearGaussian(uint64_t bits) {
  const auto sum = static_cast<int32_t>((bits & 0xFFFFU) + ((bits >> 16) & 0xFFFFU) +
                                        ((bits >> 32) & 0xFFFFU) + (bits >> 48));
  constexpr int32_t kMeanSum = 2 * 0xFFFF;
  constexpr float kScale = 1.7320508F / 65536.0F;  // sqrt(3): four uniforms have variance 1/3
  return static_cast<float>(sum - kMeanSum) * kScale;
}

struct Moments {
  float mean;
  float deviation;
};

// What trained models' tensors look like; `in` is the length of the axis that a matrix sums over.
Moments MomentsOf(TensorRole role, float in) {
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kEngramTables:
    case TensorRole::kHeadProbes:
    case TensorRole::kHeadQuery:
    case TensorRole::kMhcPhiPre:
    case TensorRole::kMhcPhiPost:
    case TensorRole::kMhcPhiRes:
      return {0.0F, 0.02F};
    case TensorRole::kD1:
    case TensorRole::kD2:
    case TensorRole::kD3:
    case TensorRole::kD4:
    case TensorRole::kHeadGain:
      return {1.0F, 0.1F};
    case TensorRole::kAttnGate:
      return {0.5F, 0.3F};
    case TensorRole::kQTaps:
    case TensorRole::kKTaps:
    case TensorRole::kVTaps:
    case TensorRole::kEngramTaps:
      return {0.3F, 0.3F};
    case TensorRole::kQProj:
    case TensorRole::kKProj:
    case TensorRole::kVProj:
    case TensorRole::kGateProj:
    case TensorRole::kOutProj:
    case TensorRole::kEngramKeyProj:
    case TensorRole::kEngramValueProj:
    case TensorRole::kHeadProj:
    case TensorRole::kW1a:
    case TensorRole::kW1b:
    case TensorRole::kW2a:
    case TensorRole::kW2b:
    case TensorRole::kW3a:
    case TensorRole::kW3b:
      return {0.0F, 1.0F / std::sqrt(in)};
    default:  // norm gains (1 + g), biases, conditions, lanes
      return {0.0F, 0.1F};
  }
}

std::vector<format::HeadShape> SynthHeads(const ModelConfig& config) {
  using format::HeadKind;
  auto confidence = config.heads[static_cast<size_t>(HeadKind::kConfidence)];
  if (config.geometry.generation == Generation::kNeedle3) return {confidence};
  auto contrastive = config.heads[static_cast<size_t>(HeadKind::kContrastive)];
  contrastive.probes = kContrastiveProbes;
  confidence.probes = kNeedle2ConfidenceProbes;
  return {contrastive, confidence};
}

// The leaves that a build of the config needs, in the order of their names.
absl::StatusOr<std::vector<SynthLeaf>> MakeLeaves(const ModelConfig& config, uint64_t seed) {
  const format::Geometry& geometry = config.geometry;
  const std::vector<format::HeadShape> heads = SynthHeads(config);
  ASSIGN_OR_RETURN(const auto schema, format::Schema::Make(geometry, heads, false));
  ASSIGN_OR_RETURN(const auto all, format::LayerSelection::Make(geometry, geometry.num_layers, {}));
  std::map<std::string, SynthLeaf> by_path;
  for (const format::TensorSpec& spec : schema.tensors()) {
    const auto binding = BindLeaf(geometry, all, heads, spec);
    if (!binding || by_path.contains(binding->path)) continue;
    const Moments moments = MomentsOf(spec.id.role, static_cast<float>(spec.shape.back()));
    by_path[binding->path] = {.path = binding->path,
                              .shape = binding->shape,
                              .num_values = NumLeafValues(binding->shape).value_or(0),
                              .first_value = 0,
                              .mean = moments.mean,
                              .deviation = moments.deviation,
                              .channel_scales = {}};
  }
  std::vector<SynthLeaf> leaves;
  uint64_t next_value = 0;
  for (auto& [path, leaf] : by_path) {
    leaf.first_value = next_value;
    next_value += leaf.num_values;
    for (uint64_t channel = 0; channel < leaf.shape.back(); ++channel) {
      // From 0.5 to 1.5, by a stream of its own.
      const uint64_t bits = Mix(~(seed * 0x2545F4914F6CDD1DU + leaf.first_value + channel));
      leaf.channel_scales.push_back(0.5F + static_cast<float>(bits >> 40) / 16777216.0F);
    }
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

std::string MakeHeader(const std::vector<SynthLeaf>& leaves, const Json& config, uint64_t seed) {
  Json header;
  header["__metadata__"] = {{"format_version", "2"},
                            {"config", base::DumpJson(config)},
                            {"step", "0"},
                            {"run", base::DumpJson({{"synthetic_seed", seed}})}};
  for (const SynthLeaf& leaf : leaves) {
    const uint64_t begin = leaf.first_value * sizeof(float);
    header[leaf.path] = {{"dtype", "F32"},
                         {"shape", leaf.shape},
                         {"data_offsets", {begin, begin + leaf.num_values * sizeof(float)}}};
  }
  std::string text = base::DumpJson(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// Values [first, first + values.size()) of the file, all of one leaf.
void FillValues(const SynthLeaf& leaf, uint64_t seed, uint64_t first, std::span<float> values) {
  const uint64_t stream = seed * 0x2545F4914F6CDD1DU;
  uint64_t channel = (first - leaf.first_value) % leaf.channel_scales.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const float deviate = NearGaussian(Mix(stream + first + i)) * leaf.channel_scales[channel];
    values[i] = leaf.mean + leaf.deviation * deviate;
    if (++channel == leaf.channel_scales.size()) channel = 0;
  }
}

absl::Status WriteValues(const std::vector<SynthLeaf>& leaves, const SynthOptions& options,
                         uint64_t data_start, base::AtomicFile& file) {
  struct Chunk {
    const SynthLeaf* leaf;
    uint64_t first;
    uint64_t count;
  };
  std::vector<Chunk> chunks;
  for (const SynthLeaf& leaf : leaves) {
    for (uint64_t i = 0; i < leaf.num_values; i += kChunkValues) {
      chunks.push_back(
          {&leaf, leaf.first_value + i, std::min<uint64_t>(kChunkValues, leaf.num_values - i)});
    }
  }
  base::ThreadPool pool(base::ResolveThreads(options.threads));
  std::vector<absl::Status> errors(pool.num_threads());
  pool.ParallelFor(chunks.size(), 1, [&](size_t begin, size_t, size_t worker) {
    if (!errors[worker].ok()) return;
    const Chunk& chunk = chunks[begin];
    std::vector<float> values(chunk.count);
    FillValues(*chunk.leaf, options.seed, chunk.first, values);
    errors[worker] = file.WriteAt(
        data_start + chunk.first * sizeof(float),
        {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)});
  });
  for (const absl::Status& error : errors) RETURN_IF_ERROR(error);
  return absl::OkStatus();
}

}  // namespace

Json ShippedConfig(Generation generation) {
  if (generation == Generation::kNeedle2) {
    return {{"vocab_size", 8192},       {"d_model", 512},
            {"attn_dim", 512},          {"num_heads", 8},
            {"num_kv_heads", 4},        {"num_layers", 27},
            {"max_seq_len", 2048},      {"rope_theta", 1e5},
            {"engram_orders", {2, 3}},  {"engram_slots", 8192},
            {"engram_layers", {2, 15}}, {"mhc_lanes", 4},
            {"kv_window", 256},         {"kv_bits", 8},
            {"contrastive_dim", 128}};
  }
  return {{"vocab_size", 8192},
          {"out_vocab", 8192},
          {"d_model", 768},
          {"num_heads", 12},
          {"num_kv_heads", 2},
          {"num_layers", 20},
          {"qk_head_dim", 48},
          {"v_head_dim", 64},
          {"max_seq_len", 8192},
          {"rope_theta", 1e5},
          {"sliding_window", 1024},
          {"global_layers", {4, 9, 14, 19}},
          {"qkv_conv_taps", 3},
          {"engram_orders", {2, 3}},
          {"engram_heads", 0},
          {"engram_slots", 18432},
          {"engram_layers", {3, 7, 11, 15, 19}},
          {"mhc_lanes", 4},
          {"kv_window", 256},
          {"kv_bits", 8}};
}

absl::StatusOr<SynthReport> WriteSyntheticCheckpoint(const SynthOptions& options,
                                                     const std::string& target) {
  RETURN_IF_ERROR(base::AtomicFile::CheckTarget(target, {}));
  const auto config = ModelConfig::FromJson(options.config);
  if (!config.ok()) return absl::InvalidArgumentError(config.status().message());
  ASSIGN_OR_RETURN(const std::vector<SynthLeaf> leaves, MakeLeaves(*config, options.seed));
  const std::string header = MakeHeader(leaves, options.config, options.seed);

  SynthReport report;
  report.num_leaves = leaves.size();
  report.num_values = leaves.back().first_value + leaves.back().num_values;
  const uint64_t data_start = sizeof(uint64_t) + header.size();
  report.file_bytes = data_start + report.num_values * sizeof(float);

  ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(target));
  const uint64_t length = header.size();
  RETURN_IF_ERROR(file.Append({reinterpret_cast<const uint8_t*>(&length), sizeof(length)}));
  RETURN_IF_ERROR(file.Append({reinterpret_cast<const uint8_t*>(header.data()), header.size()}));
  RETURN_IF_ERROR(file.Resize(report.file_bytes));
  RETURN_IF_ERROR(WriteValues(leaves, options, data_start, file));
  RETURN_IF_ERROR(file.Commit());
  return report;
}

}  // namespace needle::converter
