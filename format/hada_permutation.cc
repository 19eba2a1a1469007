#include "format/hada_permutation.h"

#include "base/legacy_random.h"

namespace needle::format {
namespace {

constexpr uint32_t kHighHalfSeedStep = 977;

}  // namespace

std::vector<uint32_t> HadaPermutation(uint32_t n, uint32_t seed, bool split_halves) {
  if (!split_halves) return base::LegacyRandom(seed).Permutation(n);
  const uint32_t half = n / 2;
  std::vector<uint32_t> permutation = base::LegacyRandom(seed).Permutation(half);
  for (const uint32_t index : base::LegacyRandom(seed + kHighHalfSeedStep).Permutation(n - half)) {
    permutation.push_back(half + index);
  }
  return permutation;
}

}  // namespace needle::format
