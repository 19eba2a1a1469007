// format/hada_permutation.h: hada_p1 and hada_p2, which no checkpoint holds. Specification: "Tree
// -> archive".
#ifndef NEEDLE_FORMAT_HADA_PERMUTATION_H_
#define NEEDLE_FORMAT_HADA_PERMUTATION_H_

#include <cstdint>
#include <vector>

namespace needle::format {

inline constexpr uint32_t kHadaP1Seed = 11;
inline constexpr uint32_t kHadaP2Seed = 13;

// NumPy's RandomState(seed).permutation(n); with `split_halves` (a non-empty ladder_widths) the low
// half with `seed` and the high half with seed + 977, offset by n/2.
std::vector<uint32_t> HadaPermutation(uint32_t n, uint32_t seed, bool split_halves);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_HADA_PERMUTATION_H_
