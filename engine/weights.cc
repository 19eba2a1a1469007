#include "engine/weights.h"

#include <span>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/vector_ops.h"

namespace needle::engine {
namespace {

using format::TensorId;
using format::TensorRole;

// Reads tensors and keeps the first error, so that a list of tensors reads like one.
class Loader {
 public:
  Loader(const WeightSource& source, Numerics numerics) : source_(source), numerics_(numerics) {}

  const absl::Status& status() const { return status_; }

  std::vector<float> Floats(TensorRole role, size_t index = 0) {
    return Take(source_.Floats(Id(role, index)));
  }
  // 1 + g.
  std::vector<float> Gain(TensorRole role, size_t index = 0) {
    std::vector<float> gain = Floats(role, index);
    for (float& value : gain) value += 1.0F;
    return gain;
  }
  // A stored [rows, cols] as [cols, rows].
  std::vector<float> Transposed(TensorRole role, size_t index, size_t cols) {
    const std::vector<float> stored = Floats(role, index);
    std::vector<float> transposed(stored.size());
    const size_t rows = stored.size() / cols;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < cols; ++c) transposed[c * rows + r] = stored[r * cols + c];
    }
    return transposed;
  }
  std::vector<uint32_t> Permutation(TensorRole role) {
    const std::vector<float> stored = Floats(role);
    std::vector<uint32_t> permutation;
    permutation.reserve(stored.size());
    for (const float value : stored) permutation.push_back(static_cast<uint32_t>(value));
    return permutation;
  }
  Matrix Packed(TensorRole role, size_t index = 0) {
    return Take(Matrix::Load(source_, Id(role, index), numerics_));
  }
  RowTable Rows(TensorRole role, size_t index = 0) {
    return Take(RowTable::Load(source_, Id(role, index)));
  }

 private:
  static TensorId Id(TensorRole role, size_t index) { return {role, static_cast<uint32_t>(index)}; }
  template <typename T>
  T Take(absl::StatusOr<T> value) {
    if (value.ok()) return *std::move(value);
    status_.Update(value.status());
    return T();
  }

  const WeightSource& source_;
  Numerics numerics_;
  absl::Status status_;
};

void LoadAttention(Loader& load, const format::Geometry& geometry, size_t i, LayerWeights& layer) {
  layer.norm_in = load.Gain(TensorRole::kNormIn, i);
  layer.q_proj = load.Packed(TensorRole::kQProj, i);
  layer.k_proj = load.Packed(TensorRole::kKProj, i);
  layer.v_proj = load.Packed(TensorRole::kVProj, i);
  if (geometry.qkv_conv_taps > 0) {
    layer.q_taps = load.Floats(TensorRole::kQTaps, i);
    layer.k_taps = load.Floats(TensorRole::kKTaps, i);
    layer.v_taps = load.Floats(TensorRole::kVTaps, i);
  }
  layer.q_norm = load.Gain(TensorRole::kQNorm, i);
  layer.k_norm = load.Gain(TensorRole::kKNorm, i);
  layer.gate_proj = load.Packed(TensorRole::kGateProj, i);
  layer.out_proj = load.Packed(TensorRole::kOutProj, i);
  layer.post_norm = load.Gain(TensorRole::kPostNorm, i);
  for (const float gate : load.Floats(TensorRole::kAttnGate, i)) layer.attn_gate = Sigmoid(gate);
}

void LoadMlp(Loader& load, const format::Geometry& geometry, size_t i, LayerWeights& layer) {
  layer.pre_hada = load.Gain(TensorRole::kPreHada, i);
  layer.d1 = load.Floats(TensorRole::kD1, i);
  layer.d2 = load.Floats(TensorRole::kD2, i);
  layer.d3 = load.Floats(TensorRole::kD3, i);
  if (geometry.generation == format::Generation::kNeedle2) return;
  layer.b2 = load.Floats(TensorRole::kB2, i);
  layer.d4 = load.Floats(TensorRole::kD4, i);
  layer.w1a_t = load.Transposed(TensorRole::kW1a, i, geometry.HadaA());
  layer.w2a_t = load.Transposed(TensorRole::kW2a, i, geometry.HadaA());
  layer.w3a_t = load.Transposed(TensorRole::kW3a, i, geometry.HadaA());
  layer.w1b = load.Floats(TensorRole::kW1b, i);
  layer.w2b = load.Floats(TensorRole::kW2b, i);
  layer.w3b = load.Floats(TensorRole::kW3b, i);
  layer.cond_v_t = load.Transposed(TensorRole::kCondV, i, kCondRank);
  layer.cond_u = load.Floats(TensorRole::kCondU, i);
}

void LoadLanes(Loader& load, Weights& weights) {
  weights.a_pre = load.Floats(TensorRole::kMhcAPre);
  weights.a_post = load.Floats(TensorRole::kMhcAPost);
  weights.a_res = load.Floats(TensorRole::kMhcARes);
  weights.b_pre = load.Floats(TensorRole::kMhcBPre);
  weights.b_post = load.Floats(TensorRole::kMhcBPost);
  weights.b_res = load.Floats(TensorRole::kMhcBRes);
  weights.phi_pre = load.Packed(TensorRole::kMhcPhiPre);
  weights.phi_post = load.Packed(TensorRole::kMhcPhiPost);
  weights.phi_res = load.Packed(TensorRole::kMhcPhiRes);
}

void LoadSite(Loader& load, size_t s, SiteWeights& site) {
  site.tables = load.Rows(TensorRole::kEngramTables, s);
  site.key_proj = load.Packed(TensorRole::kEngramKeyProj, s);
  site.value_proj = load.Packed(TensorRole::kEngramValueProj, s);
  site.taps = load.Floats(TensorRole::kEngramTaps, s);
}

// What is there once and belongs to every layer.
void LoadShared(Loader& load, const format::Geometry& geometry, Weights& weights) {
  LoadLanes(load, weights);
  if (geometry.generation == format::Generation::kNeedle2) return;
  weights.p1 = load.Permutation(TensorRole::kHadaP1);
  weights.p2 = load.Permutation(TensorRole::kHadaP2);
}

void LoadLayer(Loader& load, const format::Geometry& geometry, size_t i, Weights& weights) {
  LoadAttention(load, geometry, i, weights.layers[i]);
  LoadMlp(load, geometry, i, weights.layers[i]);
}

void LoadEnds(Loader& load, Weights& weights) {
  weights.embedding = load.Rows(TensorRole::kEmbedding);
  weights.final_norm = load.Gain(TensorRole::kFinalNorm);
}

}  // namespace

absl::StatusOr<Weights> LoadWeights(const WeightSource& source, Numerics numerics) {
  const format::Geometry& geometry = source.geometry();
  Loader load(source, numerics);
  Weights weights;
  LoadEnds(load, weights);
  weights.head = load.Packed(TensorRole::kEmbedding);
  weights.layers.resize(geometry.num_layers);
  for (size_t i = 0; i < weights.layers.size() && load.status().ok(); ++i) {
    LoadLayer(load, geometry, i, weights);
  }
  LoadShared(load, geometry, weights);
  weights.sites.resize(geometry.engram_sites.size());
  for (size_t s = 0; s < weights.sites.size() && load.status().ok(); ++s) {
    LoadSite(load, s, weights.sites[s]);
  }
  if (!load.status().ok()) return load.status();
  return weights;
}

absl::StatusOr<Weights> LoadLayerWeights(const WeightSource& source, Numerics numerics,
                                         size_t layer) {
  const format::Geometry& geometry = source.geometry();
  Loader load(source, numerics);
  Weights weights;
  weights.layers.resize(geometry.num_layers);
  LoadLayer(load, geometry, layer, weights);
  LoadShared(load, geometry, weights);
  weights.sites.resize(geometry.engram_sites.size());
  for (size_t s = 0; s < weights.sites.size(); ++s) {
    if (geometry.engram_sites[s] == layer) LoadSite(load, s, weights.sites[s]);
  }
  if (!load.status().ok()) return load.status();
  return weights;
}

absl::StatusOr<Weights> LoadEndWeights(const WeightSource& source) {
  Loader load(source, Numerics::kFloat);
  Weights weights;
  LoadEnds(load, weights);
  if (!load.status().ok()) return load.status();
  return weights;
}

}  // namespace needle::engine
