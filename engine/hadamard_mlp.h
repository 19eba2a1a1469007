// engine/hadamard_mlp.h: the MLP of both generations. Specification: "MLP", "Needle 2". Internal to
// engine/.
#ifndef NEEDLE_ENGINE_HADAMARD_MLP_H_
#define NEEDLE_ENGINE_HADAMARD_MLP_H_

#include <cstddef>
#include <span>
#include <vector>

#include "engine/run.h"

namespace needle::engine {

class HadamardMlp {
 public:
  HadamardMlp(const format::Geometry& geometry, size_t num_workers);

  // y = mlp(x) for each position; both [count, d].
  void Apply(Run& run, const LayerWeights& layer, std::span<const float> x, std::span<float> y);

 private:
  void Kronecker(const LayerWeights& layer, const Run& run, const float* x, float* y,
                 std::span<float> scratch) const;
  void WalshHadamard(const LayerWeights& layer, const float* x, float* y,
                     std::span<float> scratch) const;
  // z <- A^T * z * B with z as [ba, bb]; `half` has n values.
  void Kron(const std::vector<float>& a_t, const std::vector<float>& b, float* z,
            float* half) const;

  size_t d_;
  size_t n_;
  size_t ba_;
  size_t bb_;
  bool walsh_hadamard_;
  std::vector<std::vector<float>> scratch_;  // for each worker
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_HADAMARD_MLP_H_
