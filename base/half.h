// base/half.h: the 16-bit float formats of archives and checkpoints, as bit patterns.
#ifndef NEEDLE_BASE_HALF_H_
#define NEEDLE_BASE_HALF_H_

#include <bit>
#include <cstdint>

namespace needle::base {

// The largest finite f16, and the smallest normal one: below it a value loses precision.
inline constexpr float kMaxF16 = 65504.0F;
inline constexpr float kMinNormalF16 = 6.103515625e-05F;

// IEEE binary16 from f32, rounded to nearest even. Values from 65520 on become infinity, NaN stays
// a (quiet) NaN.
uint16_t F16FromF32(float value);

constexpr bool IsFiniteF16(uint16_t bits) { return (bits & 0x7C00U) != 0x7C00U; }

// f32 from IEEE binary16, exact.
inline float F32FromF16(uint16_t bits) {
  // In f32's place the exponent is 112 too small; the product is exact, also of subnormals.
  const uint32_t shifted = static_cast<uint32_t>(bits & 0x7FFFU) << 13;
  const auto scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(shifted) * 0x1p112F);
  const uint32_t magnitude = IsFiniteF16(bits) ? scaled : 0x7F800000U | shifted;
  return std::bit_cast<float>(magnitude | static_cast<uint32_t>(bits & 0x8000U) << 16);
}

// f32 from bfloat16, exact.
constexpr float F32FromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// bfloat16 from f32, rounded to nearest even; NaN stays a (quiet) NaN.
uint16_t Bf16FromF32(float value);

}  // namespace needle::base

#endif  // NEEDLE_BASE_HALF_H_
