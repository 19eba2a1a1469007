#include "base/legacy_random.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace needle::base {

double LegacyRandom::NextDouble() {
  const uint32_t high = NextU32() >> 5;
  const uint32_t low = NextU32() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

double LegacyRandom::NextGaussian() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  double v1 = 0;
  double v2 = 0;
  double s = 0;
  do {
    v1 = 2.0 * NextDouble() - 1.0;
    v2 = 2.0 * NextDouble() - 1.0;
    s = v1 * v1 + v2 * v2;
  } while (s >= 1.0 || s == 0.0);
  const double factor = std::sqrt(-2.0 * std::log(s) / s);
  spare_ = factor * v1;
  has_spare_ = true;
  return factor * v2;
}

std::vector<uint32_t> LegacyRandom::Permutation(uint32_t n) {
  std::vector<uint32_t> values(n);
  std::iota(values.begin(), values.end(), 0U);
  for (uint32_t i = n - 1; n > 0 && i > 0; --i) {
    const uint32_t mask = std::bit_ceil(i + 1) - 1;
    uint32_t j = NextU32() & mask;
    while (j > i) j = NextU32() & mask;
    std::swap(values[i], values[j]);
  }
  return values;
}

}  // namespace needle::base
