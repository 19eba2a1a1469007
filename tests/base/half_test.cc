#include "base/half.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace needle::base {
namespace {

// The value of a finite f16 pattern, straight from the definition of binary16.
double ValueOfF16(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(HalfTest, DecodesEveryPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = F32FromF16(half);
    if (IsFiniteF16(half)) {
      EXPECT_EQ(static_cast<double>(value), ValueOfF16(half)) << bits;
      EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    } else {
      EXPECT_EQ(std::isnan(value), (bits & 0x3FF) != 0) << bits;
      EXPECT_EQ(std::isinf(value), (bits & 0x3FF) == 0) << bits;
    }
  }
}

TEST(HalfTest, EveryPatternRoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!IsFiniteF16(half) && (bits & 0x3FF) != 0) continue;
    EXPECT_EQ(F16FromF32(F32FromF16(half)), half) << bits;
  }
}

TEST(HalfTest, RoundsToNearestEvenBetweenEveryPairOfNeighbours) {
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const auto high = static_cast<uint16_t>(bits + 1);
    const auto middle = static_cast<float>((ValueOfF16(low) + ValueOfF16(high)) / 2);
    EXPECT_EQ(F16FromF32(middle), (bits & 1) == 0 ? low : high) << bits;
    EXPECT_EQ(F16FromF32(std::nextafter(middle, 0.0F)), low) << bits;
    EXPECT_EQ(F16FromF32(std::nextafter(middle, 1e9F)), high) << bits;
  }
}

TEST(HalfTest, OverflowsToInfinityFrom65520) {
  EXPECT_EQ(F16FromF32(65519.996F), 0x7BFF);
  EXPECT_EQ(F16FromF32(65520.0F), 0x7C00);
  EXPECT_EQ(F16FromF32(-65520.0F), 0xFC00);
  EXPECT_EQ(F16FromF32(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_FALSE(IsFiniteF16(F16FromF32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(HalfTest, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(Bf16FromF32(1.0F), 0x3F80);
  EXPECT_EQ(Bf16FromF32(std::bit_cast<float>(0x3F808000U)), 0x3F80);
  EXPECT_EQ(Bf16FromF32(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_EQ(F32FromBf16(0x3F80), 1.0F);
  EXPECT_TRUE(std::isnan(F32FromBf16(Bf16FromF32(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace needle::base
