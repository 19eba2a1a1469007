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

// f32 from IEEE binary16, exact.
float F32FromF16(uint16_t bits);

constexpr bool IsFiniteF16(uint16_t bits) { return (bits & 0x7C00U) != 0x7C00U; }

// f32 from bfloat16, exact.
constexpr float F32FromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// bfloat16 from f32, rounded to nearest even; NaN stays a (quiet) NaN.
uint16_t Bf16FromF32(float value);

}  // namespace needle::base

#endif  // NEEDLE_BASE_HALF_H_
