#include "engine/hadamard_mlp.h"

#include <algorithm>

#include "engine/vector_ops.h"
#include "quant/rotate.h"

namespace needle::engine {

HadamardMlp::HadamardMlp(const format::Geometry& geometry, size_t num_workers)
    : d_(geometry.d_model),
      n_(geometry.hada_n),
      ba_(geometry.HadaA()),
      bb_(geometry.HadaB()),
      walsh_hadamard_(geometry.generation == format::Generation::kNeedle2),
      scratch_(num_workers, std::vector<float>(3 * n_)) {}

void HadamardMlp::Apply(Run& run, const LayerWeights& layer, std::span<const float> x,
                        std::span<float> y) {
  run.ForEachPosition([&](size_t t, size_t worker) {
    if (walsh_hadamard_) {
      WalshHadamard(layer, &x[t * d_], &y[t * d_], scratch_[worker]);
    } else {
      Kronecker(layer, run, &x[t * d_], &y[t * d_], scratch_[worker]);
    }
  });
}

void HadamardMlp::Kron(const std::vector<float>& a_t, const std::vector<float>& b, float* z,
                       float* half) const {
  const VectorOps& ops = Ops();
  ops.small_product(z, bb_, b.data(), bb_, ba_, bb_, bb_, false, half, bb_);
  ops.small_product(a_t.data(), ba_, half, bb_, ba_, ba_, bb_, false, z, bb_);
}

void HadamardMlp::Kronecker(const LayerWeights& layer, const Run& run, const float* x, float* y,
                            std::span<float> scratch) const {
  const VectorOps& ops = Ops();
  float* z = scratch.data();
  float* next = z + n_;
  float* cond = z + 2 * n_;  // and the half products, once cond has been used

  ops.product(layer.d1.data(), x, z, d_);
  std::fill(z + d_, z + n_, 0.0F);
  Kron(layer.w1a_t, layer.w1b, z, next);
  for (size_t i = 0; i < n_; ++i) next[i] = z[run.weights.p1[i]];

  float gates[kCondRank];
  ops.multiply(layer.cond_v_t.data(), kCondRank, d_, x, 1, gates, kCondRank);
  ops.exp(gates, kCondRank, ops.max(gates, kCondRank));
  ops.scale(gates, 1.0F / ops.sum(gates, kCondRank), gates, kCondRank);
  std::fill(cond, cond + n_, 1.0F);
  ops.small_product(gates, kCondRank, layer.cond_u.data(), n_, 1, kCondRank, n_, true, cond, n_);

  ops.product(layer.d2.data(), cond, cond, n_);
  ops.product(cond, next, next, n_);
  ops.add_scaled(layer.b2.data(), 1.0F, next, n_);
  ops.silu(next, n_);
  Kron(layer.w2a_t, layer.w2b, next, cond);
  for (size_t i = 0; i < n_; ++i) z[i] = next[run.weights.p2[i]];

  ops.product(layer.d3.data(), z, z, n_);
  Kron(layer.w3a_t, layer.w3b, z, cond);
  ops.product(layer.d4.data(), z, y, d_);
}

void HadamardMlp::WalshHadamard(const LayerWeights& layer, const float* x, float* y,
                                std::span<float> scratch) const {
  const VectorOps& ops = Ops();
  const std::span<float> z = scratch.first(n_);
  ops.product(layer.d1.data(), x, z.data(), d_);
  std::fill(z.begin() + static_cast<ptrdiff_t>(d_), z.end(), 0.0F);
  quant::Rotate(z, static_cast<uint32_t>(n_));
  ops.product(layer.d2.data(), z.data(), z.data(), n_);
  ops.silu(z.data(), n_);
  quant::Rotate(z, static_cast<uint32_t>(n_));
  ops.product(layer.d3.data(), z.data(), y, d_);
}

}  // namespace needle::engine
