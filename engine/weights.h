// engine/weights.h: a model's tensors as the blocks use them. Internal to engine/.
#ifndef NEEDLE_ENGINE_WEIGHTS_H_
#define NEEDLE_ENGINE_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/matrix.h"
#include "engine/numerics.h"
#include "engine/weight_source.h"

namespace needle::engine {

// Names are the specification's. Gains are stored as 1 + g. What a generation or geometry does not
// have stays empty.
struct LayerWeights {
  std::vector<float> norm_in;              // [d]
  Matrix q_proj;                           // [heads * qk, d]
  Matrix k_proj;                           // [kv * qk, d]
  Matrix v_proj;                           // [kv * v, d]
  std::vector<float> q_taps;               // [taps, heads * qk]
  std::vector<float> k_taps;               // [taps, kv * qk]
  std::vector<float> v_taps;               // [taps, kv * v]
  std::vector<float> q_norm;               // [qk]
  std::vector<float> k_norm;               // [qk]
  Matrix gate_proj;                        // [heads * v, d]
  Matrix out_proj;                         // [d, heads * v]
  std::vector<float> post_norm;            // [d]
  float attn_gate = 0;                     // sigma of the stored value
  std::vector<float> pre_hada;             // [d]
  std::vector<float> d1, d2, b2, d3, d4;   // [n]; Needle 2: d1, d2, d3
  std::vector<float> w1a_t, w2a_t, w3a_t;  // [ba, ba], transposed
  std::vector<float> w1b, w2b, w3b;        // [bb, bb]
  std::vector<float> cond_v_t;             // [8, d], transposed
  std::vector<float> cond_u;               // [8, n]
};

struct SiteWeights {
  RowTable tables;          // [tables * slots, sub_dim]
  Matrix key_proj;          // [d, tables * sub_dim]
  Matrix value_proj;        // [d, tables * sub_dim]
  std::vector<float> taps;  // [conv_taps, d]
};

struct Weights {
  RowTable embedding;  // [vocab, d]
  Matrix head;         // the same tensor, for the logits
  std::vector<LayerWeights> layers;
  std::vector<float> a_pre, a_post, a_res;  // [L]
  std::vector<float> b_pre, b_post;         // [L, lanes]
  std::vector<float> b_res;                 // [L, lanes, lanes]
  Matrix phi_pre, phi_post;                 // [L * lanes, lanes * d]
  Matrix phi_res;                           // [L * lanes^2, lanes * d]
  std::vector<uint32_t> p1, p2;             // [n]
  std::vector<SiteWeights> sites;
  std::vector<float> final_norm;  // [d]
};

// The number of columns of cond_v and rows of cond_u. Specification: "Tensor order, Needle 3".
inline constexpr size_t kCondRank = 8;

// Errors as of Model::Load.
absl::StatusOr<Weights> LoadWeights(const WeightSource& source, Numerics numerics);
// What layer `layer` alone needs, at its place; all else stays empty.
absl::StatusOr<Weights> LoadLayerWeights(const WeightSource& source, Numerics numerics,
                                         size_t layer);
// The embedding's rows and final_norm.
absl::StatusOr<Weights> LoadEndWeights(const WeightSource& source);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_WEIGHTS_H_
