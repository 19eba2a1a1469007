#include "base/half.h"

namespace needle::base {

uint16_t F16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    // Subnormal or zero: adding 0.5 aligns the f32 mantissa so that its low bits are the f16 bits,
    // rounded by the FPU.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U));
  }
  const uint32_t odd = (magnitude >> 13) & 1U;
  const uint32_t rounded = magnitude - 0x38000000U + 0x0FFFU + odd;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

uint16_t Bf16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  const uint32_t odd = (bits >> 16) & 1U;
  return static_cast<uint16_t>((bits + 0x7FFFU + odd) >> 16);
}

}  // namespace needle::base
