#include "converter/leaf_map.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace needle::converter {
namespace {

using format::Generation;
using format::TensorRole;

// How a depth of the model shows in a leaf.
enum class Select : uint8_t {
  kAll,       // not at all
  kLayer,     // axis 0 is the layer, one of which is read
  kLayers,    // axis 0 is the layer, those kept are read
  kRows,      // axis 0 is the embedding's row, then the layers': those kept
  kRowsInner  // the same on axis 1
};

// How the axes of a leaf become those of its tensor.
enum class Layout : uint8_t {
  kSame,             // the tensor's shape is the leaf's (behind the layer that is read)
  kSplit,            // the tensor's first dimension is the leaf's first two
  kTransposed,       // a kernel [in, out]
  kSplitTransposed,  // both: [L, in, k] -> [L * k, in]
  kScalar,           // one value: the leaf has no axis behind the layer's
};

struct LeafRule {
  TensorRole role;
  std::string_view path;
  Select select;
  Layout layout;
};

#define NEEDLE_BLOCK "stack/layers/block/"

constexpr LeafRule kRules[] = {
    {TensorRole::kEmbedding, "embedding/embedding", Select::kAll, Layout::kSame},
    {TensorRole::kNormIn, NEEDLE_BLOCK "ZCRMSNorm_0/scale", Select::kLayer, Layout::kSame},
    {TensorRole::kQProj, NEEDLE_BLOCK "self_attn/q_proj/kernel", Select::kLayer,
     Layout::kTransposed},
    {TensorRole::kKProj, NEEDLE_BLOCK "self_attn/k_proj/kernel", Select::kLayer,
     Layout::kTransposed},
    {TensorRole::kVProj, NEEDLE_BLOCK "self_attn/v_proj/kernel", Select::kLayer,
     Layout::kTransposed},
    {TensorRole::kQTaps, NEEDLE_BLOCK "self_attn/q_taps", Select::kLayer, Layout::kSame},
    {TensorRole::kKTaps, NEEDLE_BLOCK "self_attn/k_taps", Select::kLayer, Layout::kSame},
    {TensorRole::kVTaps, NEEDLE_BLOCK "self_attn/v_taps", Select::kLayer, Layout::kSame},
    {TensorRole::kQNorm, NEEDLE_BLOCK "self_attn/q_norm/scale", Select::kLayer, Layout::kSame},
    {TensorRole::kKNorm, NEEDLE_BLOCK "self_attn/k_norm/scale", Select::kLayer, Layout::kSame},
    {TensorRole::kGateProj, NEEDLE_BLOCK "self_attn/gate_proj/kernel", Select::kLayer,
     Layout::kTransposed},
    {TensorRole::kOutProj, NEEDLE_BLOCK "self_attn/out_proj/kernel", Select::kLayer,
     Layout::kTransposed},
    {TensorRole::kPostNorm, NEEDLE_BLOCK "post_attn_norm/scale", Select::kLayer, Layout::kSame},
    {TensorRole::kAttnGate, NEEDLE_BLOCK "attn_gate", Select::kLayer, Layout::kScalar},
    {TensorRole::kPreHada, NEEDLE_BLOCK "pre_hada_norm/scale", Select::kLayer, Layout::kSame},
    {TensorRole::kD1, NEEDLE_BLOCK "hadamard_mlp/d1", Select::kLayer, Layout::kSame},
    {TensorRole::kD2, NEEDLE_BLOCK "hadamard_mlp/d2", Select::kLayer, Layout::kSame},
    {TensorRole::kB2, NEEDLE_BLOCK "hadamard_mlp/b2", Select::kLayer, Layout::kSame},
    {TensorRole::kD3, NEEDLE_BLOCK "hadamard_mlp/d3", Select::kLayer, Layout::kSame},
    {TensorRole::kD4, NEEDLE_BLOCK "hadamard_mlp/d4", Select::kLayer, Layout::kSame},
    {TensorRole::kW1a, NEEDLE_BLOCK "hadamard_mlp/w1a", Select::kLayer, Layout::kSame},
    {TensorRole::kW1b, NEEDLE_BLOCK "hadamard_mlp/w1b", Select::kLayer, Layout::kSame},
    {TensorRole::kW2a, NEEDLE_BLOCK "hadamard_mlp/w2a", Select::kLayer, Layout::kSame},
    {TensorRole::kW2b, NEEDLE_BLOCK "hadamard_mlp/w2b", Select::kLayer, Layout::kSame},
    {TensorRole::kW3a, NEEDLE_BLOCK "hadamard_mlp/w3a", Select::kLayer, Layout::kSame},
    {TensorRole::kW3b, NEEDLE_BLOCK "hadamard_mlp/w3b", Select::kLayer, Layout::kSame},
    {TensorRole::kCondV, NEEDLE_BLOCK "hadamard_mlp/cond_v", Select::kLayer, Layout::kSame},
    {TensorRole::kCondU, NEEDLE_BLOCK "hadamard_mlp/cond_u", Select::kLayer, Layout::kSame},
    {TensorRole::kMhcAPre, "stack/mhc_a_pre", Select::kLayers, Layout::kSame},
    {TensorRole::kMhcAPost, "stack/mhc_a_post", Select::kLayers, Layout::kSame},
    {TensorRole::kMhcARes, "stack/mhc_a_res", Select::kLayers, Layout::kSame},
    {TensorRole::kMhcBPre, "stack/mhc_b_pre", Select::kLayers, Layout::kSame},
    {TensorRole::kMhcBPost, "stack/mhc_b_post", Select::kLayers, Layout::kSame},
    {TensorRole::kMhcBRes, "stack/mhc_b_res", Select::kLayers, Layout::kSame},
    {TensorRole::kMhcPhiPre, "stack/mhc_phi_pre", Select::kLayers, Layout::kSplitTransposed},
    {TensorRole::kMhcPhiPost, "stack/mhc_phi_post", Select::kLayers, Layout::kSplitTransposed},
    {TensorRole::kMhcPhiRes, "stack/mhc_phi_res", Select::kLayers, Layout::kSplitTransposed},
    {TensorRole::kEngramTables, "engrams_{site}/embedding", Select::kAll, Layout::kSplit},
    {TensorRole::kEngramKeyProj, "engrams_{site}/key_proj/kernel", Select::kAll,
     Layout::kTransposed},
    {TensorRole::kEngramValueProj, "engrams_{site}/value_proj/kernel", Select::kAll,
     Layout::kTransposed},
    {TensorRole::kEngramTaps, "engrams_{site}/taps", Select::kAll, Layout::kSame},
    {TensorRole::kFinalNorm, "stack/final_norm/scale", Select::kAll, Layout::kSame},
    {TensorRole::kHeadProbes, "{head}/probes", Select::kRows, Layout::kSplit},
    {TensorRole::kHeadGain, "{head}/gain", Select::kRows, Layout::kSame},
    {TensorRole::kHeadQuery, "{head}/query", Select::kAll, Layout::kSame},
    {TensorRole::kHeadRowBias, "{head}/row_bias", Select::kRowsInner, Layout::kSame},
    {TensorRole::kHeadProj, "{head}/proj/kernel", Select::kAll, Layout::kTransposed},
    {TensorRole::kHeadBias, "{head}/proj/bias", Select::kAll, Layout::kSame},
    {TensorRole::kHeadCalibration, "{head}/calibration", Select::kAll, Layout::kSame},
};

#undef NEEDLE_BLOCK

// Needle 2's probes are not per row.
constexpr LeafRule kNeedle2Probes = {TensorRole::kHeadProbes, "{head}/probes", Select::kAll,
                                     Layout::kSame};

const LeafRule* FindRule(TensorRole role, Generation generation) {
  if (generation == Generation::kNeedle2 && role == TensorRole::kHeadProbes) return &kNeedle2Probes;
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const LeafRule& row) { return row.role == role; });
  return rule == std::end(kRules) ? nullptr : rule;
}

bool IsSplit(Layout layout) {
  return layout == Layout::kSplit || layout == Layout::kSplitTransposed;
}
bool IsTransposed(Layout layout) {
  return layout == Layout::kTransposed || layout == Layout::kSplitTransposed;
}

// Indices on the axis that a depth selects from.
std::vector<uint32_t> SelectedIndices(Select select, std::span<const uint32_t> layers) {
  std::vector<uint32_t> indices;
  if (select != Select::kLayers) indices.push_back(0);  // the embedding's row
  for (const uint32_t layer : layers) {
    indices.push_back(select == Select::kLayers ? layer : layer + 1);
  }
  return indices;
}

// The tensor's dimensions, with one for each axis that is read.
std::vector<uint64_t> ViewShape(const LeafRule& rule, const format::TensorSpec& spec,
                                uint64_t leading) {
  std::vector<uint64_t> shape(spec.shape.begin(), spec.shape.end());
  if (rule.layout == Layout::kScalar) return {};
  if (IsSplit(rule.layout) && shape.front() % leading == 0) {
    shape.front() /= leading;
    shape.insert(shape.begin(), leading);
  }
  return shape;
}

std::string SubstitutePath(std::string_view pattern, const std::string& site,
                           const std::string& head) {
  return absl::StrReplaceAll(absl::string_view(pattern.data(), pattern.size()),
                             {{"{site}", site}, {"{head}", head}});
}

}  // namespace

std::optional<LeafBinding> BindLeaf(const format::Geometry& full,
                                    const format::LayerSelection& selection,
                                    std::span<const format::HeadShape> heads,
                                    const format::TensorSpec& spec) {
  const LeafRule* rule = FindRule(spec.id.role, full.generation);
  if (rule == nullptr) return std::nullopt;
  const uint32_t index = spec.id.index;
  LeafBinding binding;
  binding.path = SubstitutePath(
      rule->path, format::IsEngramRole(rule->role) ? absl::StrCat(selection.sites[index]) : "",
      format::IsHeadRole(rule->role) ? std::string(format::HeadName(heads[index].kind)) : "");

  const bool selects = rule->select != Select::kAll && rule->select != Select::kLayer;
  std::vector<uint32_t> selected;
  if (selects) selected = SelectedIndices(rule->select, selection.layers);
  binding.shape = ViewShape(*rule, spec, selects ? selected.size() : full.num_engram_tables);

  const uint32_t first = rule->select == Select::kLayer ? 1 : 0;
  for (uint32_t i = 0; i < binding.shape.size(); ++i) binding.axes.push_back({first + i, {}});
  if (selects) {
    const size_t axis = rule->select == Select::kRowsInner ? 1 : 0;
    binding.shape[axis] = full.num_layers + (rule->select == Select::kLayers ? 0 : 1);
    binding.axes[axis].indices = std::move(selected);
  }
  if (rule->select == Select::kLayer) {
    binding.shape.insert(binding.shape.begin(), full.num_layers);
    binding.layer = selection.layers[index];
  }
  if (IsTransposed(rule->layout)) {
    std::swap(binding.shape.end()[-1], binding.shape.end()[-2]);
    std::swap(binding.axes.end()[-1], binding.axes.end()[-2]);
  }
  return binding;
}

bool MayBeMissing(TensorRole role) {
  return role == TensorRole::kHeadBias || role == TensorRole::kHeadCalibration;
}

std::vector<float> DefaultValues(const format::TensorSpec& spec) {
  if (spec.id.role == TensorRole::kHeadCalibration) return {0.90F, 0.00F, 0.60F};
  return std::vector<float>(spec.shape.front(), 0.0F);
}

std::string HeadLeafPath(format::HeadKind kind, TensorRole role) {
  return SubstitutePath(FindRule(role, Generation::kNeedle3)->path, "",
                        std::string(format::HeadName(kind)));
}

LeafUse UseOfUnboundLeaf(std::string_view path) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(path.data(), path.size()), '/');
  const auto has = [&](const char* name) {
    return std::find(parts.begin(), parts.end(), name) != parts.end();
  };
  if (has("ab_scales")) return LeafUse::kScales;
  if (has("encoder") || has("stem") || has("pe_gate")) return LeafUse::kSpeech;
  if (parts.front().starts_with("mtp_")) return LeafUse::kTrainingOnly;
  if (parts.back() == "log_temp" && parts.front().ends_with("_head")) return LeafUse::kTrainingOnly;
  if (path == "embedding_head/bias") return LeafUse::kTrainingOnly;
  return LeafUse::kUnknown;
}

}  // namespace needle::converter
