#include "engine/trunk.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "engine/vector_ops.h"

namespace needle::engine {

Trunk::Trunk(const format::Geometry& geometry, Numerics numerics, size_t num_workers)
    : d_(geometry.d_model),
      rope_(geometry.rope_theta, geometry.qk_head_dim),
      lanes_(geometry),
      attention_(geometry, numerics, num_workers),
      mlp_(geometry, num_workers),
      engram_(geometry) {
  for (std::vector<float>* buffer : {&u_, &v_, &normed_, &update_}) buffer->resize(kChunk * d_);
  cosines_.resize(kChunk * rope_.half());
  sines_.resize(kChunk * rope_.half());
}

Run Trunk::Begin(const Weights& weights, Numerics numerics, base::ThreadPool& pool,
                 Observer* observer, const format::Geometry& geometry,
                 std::span<const uint32_t> tokens, size_t first, size_t count) {
  Run run = {.geometry = geometry,
             .weights = weights,
             .numerics = numerics,
             .pool = pool,
             .observer = observer,
             .first = first,
             .count = count,
             .tokens = tokens.first(first + count),
             .cosines = cosines_,
             .sines = sines_};
  if (observer != nullptr) observer->OnTokens(first, run.tokens.subspan(first));
  const size_t half = rope_.half();
  for (size_t t = 0; t < count; ++t) {
    rope_.Angles(first + t, std::span(cosines_).subspan(t * half, half),
                 std::span(sines_).subspan(t * half, half));
  }
  engram_.Hash(run);
  return run;
}

absl::Status Trunk::Embed(Run& run) {
  const float root = std::sqrt(static_cast<float>(d_));
  for (size_t t = 0; t < run.count; ++t) {
    const std::span<float> x0 = std::span(u_).subspan(t * d_, d_);
    RETURN_IF_ERROR(run.weights.embedding.Read(run.tokens[run.first + t], x0));
    Ops().scale(x0.data(), root, x0.data(), d_);
    lanes_.Start(t, x0);
  }
  return absl::OkStatus();
}

void Trunk::Normalize(const float* x, std::span<const float> gain, float* y) const {
  Ops().scale_gain(x, InverseRms(x, d_), gain.data(), y, d_);
}

// The specification's "Layer i"; the numbers are its steps.
absl::Status Trunk::RunLayer(Run& run, size_t layer, LayerPart last) {
  const VectorOps& ops = Ops();
  const LayerWeights& weights = run.weights.layers[layer];
  lanes_.Read(run, layer, u_);  // 1, 2
  if (last == LayerPart::kLanes) return absl::OkStatus();
  std::copy_n(u_.begin(), run.count * d_, v_.begin());
  const auto& sites = run.geometry.engram_sites;
  const auto site = std::find(sites.begin(), sites.end(), layer);
  if (site != sites.end()) {  // 3
    RETURN_IF_ERROR(engram_.Apply(run, static_cast<size_t>(site - sites.begin()), u_, v_));
  }
  if (last == LayerPart::kEngram) return absl::OkStatus();
  run.ForEachPosition(
      [&](size_t t, size_t) { Normalize(&v_[t * d_], weights.norm_in, &normed_[t * d_]); });
  attention_.Project(run, layer, normed_);  // 4
  if (last == LayerPart::kAttention) return absl::OkStatus();
  RETURN_IF_ERROR(attention_.Mix(run, layer, update_));
  if (last == LayerPart::kOutput) return absl::OkStatus();
  run.ForEachPosition([&](size_t t, size_t) {
    float* update = &update_[t * d_];
    Normalize(update, weights.post_norm, update);
    ops.add_scaled(update, weights.attn_gate, &v_[t * d_], d_);
    Normalize(&v_[t * d_], weights.pre_hada, &normed_[t * d_]);
  });
  mlp_.Apply(run, weights, normed_, update_);
  run.ForEachPosition([&](size_t t, size_t) {  // 5
    float* y = lanes_.Output(t).data();
    ops.scale(&v_[t * d_], 1.0F, y, d_);
    ops.add_scaled(&update_[t * d_], 1.0F, y, d_);
    ops.add_scaled(&u_[t * d_], -1.0F, y, d_);
  });
  lanes_.Write(run);  // 6, 7
  return absl::OkStatus();
}

void Trunk::HeadInput(const Weights& weights, Numerics numerics, size_t t,
                      std::span<float> h) const {
  lanes_.Mean(t, h);
  Normalize(h.data(), weights.final_norm, h.data());
  if (numerics == Numerics::kA8) QuantizeInt8(h.data(), d_);
}

void Trunk::Reset() {
  attention_.Reset();
  engram_.Reset();
}

size_t Trunk::MemoryBytes() const {
  return (u_.size() * 4 + cosines_.size() * 2) * sizeof(float) + attention_.MemoryBytes() +
         engram_.MemoryBytes() + lanes_.MemoryBytes();
}

}  // namespace needle::engine
