// tests/support/float_values.h: the same random floats in every run, and floats as bits.
#ifndef NEEDLE_TESTS_SUPPORT_FLOAT_VALUES_H_
#define NEEDLE_TESTS_SUPPORT_FLOAT_VALUES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/legacy_random.h"

namespace needle::tests {

inline std::vector<float> GaussianFloats(size_t count, uint32_t seed, float scale = 1) {
  base::LegacyRandom random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = scale * static_cast<float>(random.NextGaussian());
  return values;
}

inline std::vector<uint32_t> FloatBits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_FLOAT_VALUES_H_
