// bench/random_values.h: inputs for benchmarks.
#ifndef NEEDLE_BENCH_RANDOM_VALUES_H_
#define NEEDLE_BENCH_RANDOM_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/legacy_random.h"

namespace needle::bench {

inline std::vector<float> Gaussian(size_t count, float scale) {
  base::LegacyRandom random(1);
  std::vector<float> values(count);
  for (float& value : values) value = scale * static_cast<float>(random.NextGaussian());
  return values;
}

inline std::vector<uint8_t> Bytes(size_t count) {
  base::LegacyRandom random(2);
  std::vector<uint8_t> values(count);
  for (uint8_t& value : values) value = static_cast<uint8_t>(random.NextU32() >> 24);
  return values;
}

}  // namespace needle::bench

#endif  // NEEDLE_BENCH_RANDOM_VALUES_H_
