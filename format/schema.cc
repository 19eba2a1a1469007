#include "format/schema.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/status_macros.h"

namespace needle::format {
namespace {

// One row a role, in the order of the enum.
constexpr auto kRoleNames = std::to_array<std::pair<TensorRole, std::string_view>>({
    {TensorRole::kEmbedding, "embedding"},
    {TensorRole::kNormIn, "norm_in"},
    {TensorRole::kQProj, "q_proj"},
    {TensorRole::kKProj, "k_proj"},
    {TensorRole::kVProj, "v_proj"},
    {TensorRole::kQTaps, "q_taps"},
    {TensorRole::kKTaps, "k_taps"},
    {TensorRole::kVTaps, "v_taps"},
    {TensorRole::kQNorm, "q_norm"},
    {TensorRole::kKNorm, "k_norm"},
    {TensorRole::kGateProj, "gate_proj"},
    {TensorRole::kOutProj, "out_proj"},
    {TensorRole::kPostNorm, "post_norm"},
    {TensorRole::kAttnGate, "attn_gate"},
    {TensorRole::kPreHada, "pre_hada"},
    {TensorRole::kD1, "d1"},
    {TensorRole::kD2, "d2"},
    {TensorRole::kB2, "b2"},
    {TensorRole::kD3, "d3"},
    {TensorRole::kD4, "d4"},
    {TensorRole::kW1a, "w1a"},
    {TensorRole::kW1b, "w1b"},
    {TensorRole::kW2a, "w2a"},
    {TensorRole::kW2b, "w2b"},
    {TensorRole::kW3a, "w3a"},
    {TensorRole::kW3b, "w3b"},
    {TensorRole::kCondV, "cond_v"},
    {TensorRole::kCondU, "cond_u"},
    {TensorRole::kMhcAPre, "mhc_a_pre"},
    {TensorRole::kMhcAPost, "mhc_a_post"},
    {TensorRole::kMhcARes, "mhc_a_res"},
    {TensorRole::kMhcBPre, "mhc_b_pre"},
    {TensorRole::kMhcBPost, "mhc_b_post"},
    {TensorRole::kMhcBRes, "mhc_b_res"},
    {TensorRole::kMhcPhiPre, "mhc_phi_pre"},
    {TensorRole::kMhcPhiPost, "mhc_phi_post"},
    {TensorRole::kMhcPhiRes, "mhc_phi_res"},
    {TensorRole::kHadaP1, "hada_p1"},
    {TensorRole::kHadaP2, "hada_p2"},
    {TensorRole::kEngramTables, "tables"},
    {TensorRole::kEngramKeyProj, "key_proj"},
    {TensorRole::kEngramValueProj, "value_proj"},
    {TensorRole::kEngramTaps, "taps"},
    {TensorRole::kFinalNorm, "final_norm"},
    {TensorRole::kHeadsManifest, "heads.manifest"},
    {TensorRole::kHeadProbes, "probes"},
    {TensorRole::kHeadGain, "gain"},
    {TensorRole::kHeadQuery, "query"},
    {TensorRole::kHeadRowBias, "row_bias"},
    {TensorRole::kHeadProj, "proj"},
    {TensorRole::kHeadBias, "bias"},
    {TensorRole::kHeadCalibration, "calibration"},
    {TensorRole::kTokenizer, "tokenizer"},
});

constexpr bool RolesStandInEnumOrder() {
  for (size_t i = 0; i < kRoleNames.size(); ++i) {
    if (static_cast<size_t>(kRoleNames[i].first) != i) return false;
  }
  return true;
}
static_assert(RolesStandInEnumOrder());

struct HeadRow {
  Generation generation;
  uint32_t code;
  HeadKind kind;
};

constexpr auto kHeadCodes = std::to_array<HeadRow>({
    {Generation::kNeedle3, 1, HeadKind::kEmbedding},
    {Generation::kNeedle3, 2, HeadKind::kConfidence},
    {Generation::kNeedle3, 3, HeadKind::kRouter},
    {Generation::kNeedle2, 1, HeadKind::kContrastive},
    {Generation::kNeedle2, 2, HeadKind::kConfidence},
});

// A router has all of Needle 3's, other heads no calibration.
constexpr auto kNeedle3HeadRoles = std::to_array<TensorRole>(
    {TensorRole::kHeadProbes, TensorRole::kHeadGain, TensorRole::kHeadQuery,
     TensorRole::kHeadRowBias, TensorRole::kHeadProj, TensorRole::kHeadBias,
     TensorRole::kHeadCalibration});
constexpr auto kNeedle2HeadRoles = std::to_array<TensorRole>(
    {TensorRole::kHeadProbes, TensorRole::kHeadProj, TensorRole::kHeadBias});

constexpr uint32_t kCondRank = 8;           // cond_v, cond_u
constexpr uint32_t kCalibrationValues = 3;  // of the router

using Shape = std::vector<uint32_t>;

// Appends the specs of an archive in file order.
class Builder {
 public:
  Builder(const Geometry& geometry, const std::vector<HeadShape>& heads)
      : g_(geometry), heads_(heads), is_needle3_(geometry.generation == Generation::kNeedle3) {}

  std::vector<TensorSpec> Build(bool has_tokenizer) && {
    Add(TensorRole::kEmbedding, DType::kCq, {g_.vocab, g_.d_model});
    for (index_ = 0; index_ < g_.num_layers; ++index_) AddLayer();
    index_ = 0;
    AddMhc();
    if (is_needle3_) AddPermutations();
    for (index_ = 0; index_ < g_.engram_sites.size(); ++index_) AddSite();
    index_ = 0;
    Add(TensorRole::kFinalNorm, DType::kF16, {g_.d_model});
    if (!heads_.empty()) AddHeads();
    if (has_tokenizer) Add(TensorRole::kTokenizer, DType::kRaw, {});
    return std::move(tensors_);
  }

 private:
  void Add(TensorRole role, DType dtype, Shape shape) {
    tensors_.push_back({{role, index_}, Name(role), dtype, std::move(shape)});
  }

  std::string Name(TensorRole role) const {
    const std::string_view name = RoleName(role);
    if (IsLayerRole(role)) return absl::StrFormat("layer%02d.%s", index_, name);
    if (IsEngramRole(role)) return absl::StrFormat("engram%d.%s", index_, name);
    if (IsHeadRole(role)) return absl::StrFormat("%s.%s", HeadName(heads_[index_].kind), name);
    return std::string(name);
  }

  void AddLayer() {
    const uint32_t d = g_.d_model;
    const uint32_t q = g_.num_heads * g_.qk_head_dim;
    const uint32_t k = g_.num_kv_heads * g_.qk_head_dim;
    const uint32_t v = g_.num_kv_heads * g_.v_head_dim;
    const uint32_t out = g_.num_heads * g_.v_head_dim;
    Add(TensorRole::kNormIn, DType::kF16, {d});
    Add(TensorRole::kQProj, DType::kCq, {q, d});
    Add(TensorRole::kKProj, DType::kCq, {k, d});
    Add(TensorRole::kVProj, DType::kCq, {v, d});
    if (g_.qkv_conv_taps > 0) {
      Add(TensorRole::kQTaps, DType::kF16, {g_.qkv_conv_taps, q});
      Add(TensorRole::kKTaps, DType::kF16, {g_.qkv_conv_taps, k});
      Add(TensorRole::kVTaps, DType::kF16, {g_.qkv_conv_taps, v});
    }
    Add(TensorRole::kQNorm, DType::kF16, {g_.qk_head_dim});
    Add(TensorRole::kKNorm, DType::kF16, {g_.qk_head_dim});
    Add(TensorRole::kGateProj, DType::kCq, {out, d});
    Add(TensorRole::kOutProj, DType::kCq, {d, out});
    Add(TensorRole::kPostNorm, DType::kF16, {d});
    Add(TensorRole::kAttnGate, DType::kF16, {1});
    Add(TensorRole::kPreHada, DType::kF16, {d});
    AddHadamardMlp();
  }

  void AddHadamardMlp() {
    const uint32_t n = g_.hada_n;
    if (!is_needle3_) {
      for (const TensorRole role : {TensorRole::kD1, TensorRole::kD2, TensorRole::kD3}) {
        Add(role, DType::kF16, {n});
      }
      return;
    }
    for (const TensorRole role :
         {TensorRole::kD1, TensorRole::kD2, TensorRole::kB2, TensorRole::kD3, TensorRole::kD4}) {
      Add(role, DType::kF16, {n});
    }
    const uint32_t a = g_.HadaA();
    const uint32_t b = g_.HadaB();
    Add(TensorRole::kW1a, DType::kF16, {a, a});
    Add(TensorRole::kW1b, DType::kF16, {b, b});
    Add(TensorRole::kW2a, DType::kF16, {a, a});
    Add(TensorRole::kW2b, DType::kF16, {b, b});
    Add(TensorRole::kW3a, DType::kF16, {a, a});
    Add(TensorRole::kW3b, DType::kF16, {b, b});
    Add(TensorRole::kCondV, DType::kF16, {g_.d_model, kCondRank});
    Add(TensorRole::kCondU, DType::kF16, {kCondRank, n});
  }

  void AddMhc() {
    const uint32_t layers = g_.num_layers;
    const uint32_t lanes = g_.mhc_lanes;
    const uint32_t width = lanes * g_.d_model;
    Add(TensorRole::kMhcAPre, DType::kF16, {layers});
    Add(TensorRole::kMhcAPost, DType::kF16, {layers});
    Add(TensorRole::kMhcARes, DType::kF16, {layers});
    Add(TensorRole::kMhcBPre, DType::kF16, {layers, lanes});
    Add(TensorRole::kMhcBPost, DType::kF16, {layers, lanes});
    Add(TensorRole::kMhcBRes, DType::kF16, {layers, lanes, lanes});
    Add(TensorRole::kMhcPhiPre, DType::kCq, {layers * lanes, width});
    Add(TensorRole::kMhcPhiPost, DType::kCq, {layers * lanes, width});
    Add(TensorRole::kMhcPhiRes, DType::kCq, {layers * lanes * lanes, width});
  }

  void AddPermutations() {
    Add(TensorRole::kHadaP1, DType::kF32, {g_.hada_n});
    Add(TensorRole::kHadaP2, DType::kF32, {g_.hada_n});
  }

  void AddSite() {
    const uint32_t width = g_.EngramWidth();
    Add(TensorRole::kEngramTables, DType::kCq,
        {g_.num_engram_tables * g_.engram_slots, g_.engram_sub_dim});
    Add(TensorRole::kEngramKeyProj, DType::kCq, {g_.d_model, width});
    Add(TensorRole::kEngramValueProj, DType::kCq, {g_.d_model, width});
    Add(TensorRole::kEngramTaps, DType::kF16, {g_.engram_conv_taps, g_.d_model});
  }

  void AddHeads() {
    Add(TensorRole::kHeadsManifest, DType::kF16, {static_cast<uint32_t>(heads_.size())});
    for (index_ = 0; index_ < heads_.size(); ++index_) {
      for (const TensorRole role : HeadRoles(g_.generation, heads_[index_].kind)) {
        AddHeadTensor(heads_[index_], role);
      }
    }
    index_ = 0;
  }

  // Needle 2's heads have one axis of probes; Needle 3's pool probes of L+1 rows by queries.
  void AddHeadTensor(const HeadShape& head, TensorRole role) {
    const uint32_t rows = g_.num_layers + 1;
    const uint32_t k = head.probes;
    const uint32_t pooled = is_needle3_ ? head.queries : head.probes;
    const bool is_cq = is_needle3_ && !head.fp16_matrices;
    const DType matrix = is_cq ? DType::kCq : DType::kF16;
    switch (role) {
      case TensorRole::kHeadProbes:
        if (!is_needle3_) return Add(role, matrix, {k, g_.d_model});
        return Add(role, matrix, is_cq ? Shape{rows * k, g_.d_model} : Shape{rows, k, g_.d_model});
      case TensorRole::kHeadGain:
        return Add(role, DType::kF16, {rows, k});
      case TensorRole::kHeadQuery:
        return Add(role, matrix, {head.queries, g_.d_model});
      case TensorRole::kHeadRowBias:
        return Add(role, DType::kF16, {head.queries, rows, k});
      case TensorRole::kHeadProj:
        return Add(role, matrix, {head.out, pooled * g_.d_model});
      case TensorRole::kHeadBias:
        return Add(role, DType::kF16, {head.out});
      default:
        return Add(role, DType::kF16, {kCalibrationValues});
    }
  }

  const Geometry& g_;
  const std::vector<HeadShape>& heads_;
  const bool is_needle3_;
  uint32_t index_ = 0;  // of the layer, site or head that is being added
  std::vector<TensorSpec> tensors_;
};

// Outputs of the heads whose meaning fixes them; 0 for an embedding of any width.
uint32_t FixedOutputs(HeadKind kind) {
  switch (kind) {
    case HeadKind::kConfidence:
      return 1;
    case HeadKind::kRouter:
      return 3;
    case HeadKind::kEmbedding:
    case HeadKind::kContrastive:
      return 0;
  }
  return 0;
}

absl::Status HeadError(const HeadShape& head, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrFormat("%s: %s", HeadName(head.kind), what));
}

absl::Status CheckHead(const Geometry& geometry, const HeadShape& head) {
  const bool is_needle3 = geometry.generation == Generation::kNeedle3;
  if (head.probes == 0) return HeadError(head, "0 probes, want at least 1");
  if (head.out == 0) return HeadError(head, "0 outputs, want at least 1");
  if (is_needle3 && head.queries == 0) return HeadError(head, "0 queries, want at least 1");
  const uint32_t fixed = FixedOutputs(head.kind);
  if (fixed != 0 && head.out != fixed) {
    return HeadError(head, absl::StrFormat("%d outputs, want %d", head.out, fixed));
  }
  const uint64_t rows = is_needle3 ? uint64_t{geometry.num_layers} + 1 : 1;
  const uint32_t pooled = is_needle3 ? head.queries : head.probes;
  if (rows * head.probes > UINT32_MAX || uint64_t{pooled} * geometry.d_model > UINT32_MAX) {
    return HeadError(head, "a dimension is more than 32 bits hold");
  }
  return absl::OkStatus();
}

absl::Status CheckHeads(const Geometry& geometry, const std::vector<HeadShape>& heads) {
  uint32_t previous = 0;
  for (const HeadShape& head : heads) {
    const uint32_t code = HeadCode(geometry.generation, head.kind);
    if (code == 0) {
      return HeadError(head, GenerationName(geometry.generation) + " has no such head");
    }
    if (code <= previous) return HeadError(head, "given twice or out of the manifest's order");
    previous = code;
    RETURN_IF_ERROR(CheckHead(geometry, head));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return "FP16";
    case DType::kF32:
      return "FP32";
    case DType::kCq:
      return "CQ";
    case DType::kRaw:
      return "RAW";
  }
  return "";
}

bool IsLayerRole(TensorRole role) {
  return role >= TensorRole::kNormIn && role <= TensorRole::kCondU;
}

bool IsEngramRole(TensorRole role) {
  return role >= TensorRole::kEngramTables && role <= TensorRole::kEngramTaps;
}

bool IsHeadRole(TensorRole role) {
  return role >= TensorRole::kHeadProbes && role <= TensorRole::kHeadCalibration;
}

std::string_view RoleName(TensorRole role) { return kRoleNames[static_cast<size_t>(role)].second; }

std::string_view HeadName(HeadKind kind) {
  switch (kind) {
    case HeadKind::kEmbedding:
      return "embedding_head";
    case HeadKind::kConfidence:
      return "confidence_head";
    case HeadKind::kRouter:
      return "router_head";
    case HeadKind::kContrastive:
      return "contrastive_head";
  }
  return "";
}

uint32_t HeadCode(Generation generation, HeadKind kind) {
  for (const HeadRow& row : kHeadCodes) {
    if (row.generation == generation && row.kind == kind) return row.code;
  }
  return 0;
}

std::optional<HeadKind> HeadKindFromCode(Generation generation, uint32_t code) {
  for (const HeadRow& row : kHeadCodes) {
    if (row.generation == generation && row.code == code) return row.kind;
  }
  return std::nullopt;
}

std::span<const TensorRole> HeadRoles(Generation generation, HeadKind kind) {
  if (generation == Generation::kNeedle2) return kNeedle2HeadRoles;
  const std::span<const TensorRole> roles = kNeedle3HeadRoles;
  return kind == HeadKind::kRouter ? roles : roles.first(roles.size() - 1);
}

absl::StatusOr<Schema> Schema::Make(const Geometry& geometry, std::vector<HeadShape> heads,
                                    bool has_tokenizer) {
  RETURN_IF_ERROR(CheckHeads(geometry, heads));
  Schema schema;
  schema.tensors_ = Builder(geometry, heads).Build(has_tokenizer);
  schema.heads_ = std::move(heads);
  schema.has_tokenizer_ = has_tokenizer;
  return schema;
}

std::optional<size_t> Schema::Find(TensorId id) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const TensorSpec& spec) { return spec.id == id; });
  if (found == tensors_.end()) return std::nullopt;
  return static_cast<size_t>(found - tensors_.begin());
}

std::optional<size_t> Schema::FindName(std::string_view canonical_name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorSpec& spec) {
    return spec.name == canonical_name;
  });
  if (found == tensors_.end()) return std::nullopt;
  return static_cast<size_t>(found - tensors_.begin());
}

std::optional<uint64_t> NumValues(const std::vector<uint32_t>& shape) {
  uint64_t values = 1;
  for (const uint32_t dimension : shape) {
    const auto product = base::CheckedMul(values, dimension);
    if (!product) return std::nullopt;
    values = *product;
  }
  return values;
}

std::string ShapeText(const std::vector<uint32_t>& shape) {
  return absl::StrFormat("[%s]", absl::StrJoin(shape, ", "));
}

}  // namespace needle::format
