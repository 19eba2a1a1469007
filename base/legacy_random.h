// base/legacy_random.h: NumPy's legacy RandomState. Specification: "Codebooks" and "Tree ->
// archive".
#ifndef NEEDLE_BASE_LEGACY_RANDOM_H_
#define NEEDLE_BASE_LEGACY_RANDOM_H_

#include <cstdint>
#include <random>
#include <vector>

namespace needle::base {

// MT19937 seeded by init_genrand, with NumPy's deviates. The Gaussian uses log and sqrt of the C
// library, so it is not for bytes that must agree between machines; permutations are exact
// everywhere.
class LegacyRandom {
 public:
  explicit LegacyRandom(uint32_t seed) : engine_(seed) {}

  uint32_t NextU32() { return static_cast<uint32_t>(engine_()); }
  // Uniform in [0, 1) with 53 bits.
  double NextDouble();
  // Unit Gaussian by the polar method.
  double NextGaussian();
  // A permutation of 0 ... n-1: Fisher-Yates from the top with masked rejection.
  std::vector<uint32_t> Permutation(uint32_t n);

 private:
  std::mt19937 engine_;
  bool has_spare_ = false;
  double spare_ = 0;
};

}  // namespace needle::base

#endif  // NEEDLE_BASE_LEGACY_RANDOM_H_
