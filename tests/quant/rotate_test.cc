#include "quant/rotate.h"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "quant/rotate_kernel.h"
#include "tests/quant/simd_targets.h"

namespace needle::quant {
namespace {

std::vector<float> RandomValues(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31F;
  }
  return values;
}

TEST(RotateTest, TinyGroupHasTheValuesOfTheButterfly) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  Rotate(values, 8);
  const float scale = static_cast<float>(1 / std::sqrt(8.0));
  const std::vector<float> want = {36 * scale,  -4 * scale, -8 * scale, 0 * scale,
                                   -16 * scale, 0 * scale,  0 * scale,  0 * scale};
  EXPECT_EQ(values, want);
}

TEST(RotateTest, EntriesAreTheSylvesterMatrix) {
  // Row i of H: (-1)^popcount(i & j) / sqrt(group). A unit vector makes every step exact.
  for (const uint32_t group : {8U, 64U, 128U}) {
    for (uint32_t i = 0; i < group; ++i) {
      std::vector<float> values(group);
      values[i] = 1;
      Rotate(values, group);
      for (uint32_t j = 0; j < group; ++j) {
        const float sign = std::popcount(i & j) % 2 == 0 ? 1.0F : -1.0F;
        ASSERT_EQ(values[j], sign * RotationScale(group)) << group << " " << i << " " << j;
      }
    }
  }
}

TEST(RotateTest, TwiceIsTheIdentityUpToRounding) {
  const std::vector<float> original = RandomValues(3 * 128, 1);
  std::vector<float> values = original;
  Rotate(values, 128);
  Rotate(values, 128);
  for (size_t i = 0; i < values.size(); ++i) {
    // 2 * 7 additions and 2 scalings: each at most half an ulp (2^-24) of a value that stays below
    // the group's norm, sqrt(128) < 12 here; the scale itself is off by 2^-24 twice.
    EXPECT_NEAR(values[i], original[i], 18 * 0x1p-24 * 12);
  }
}

TEST(RotateTest, OrderOfStridesIsTheSpecified) {
  // (2^24 + 1) + ... : with stride 1 first, 2^24 + 1 rounds to 2^24 and the 1 is lost; any other
  // order would keep it.
  std::vector<float> values = {0x1p24F, 1, -0x1p24F, 0, 0, 0, 0, 0};
  Rotate(values, 8);
  const float scale = RotationScale(8);
  EXPECT_EQ(values[0], 0.0F);
  EXPECT_EQ(values[2], 0x1p25F * scale);
}

TEST(RotateTest, SameBitsOnEveryInstructionSet) {
  for (uint32_t group = 8; group <= 4096; group *= 2) {
    const std::vector<float> original = RandomValues(3 * group, group);
    std::vector<float> want = original;
    RotatePortable(want, group);
    tests::ForEachSimdTarget([&] {
      std::vector<float> values = original;
      RotateSimd(values, group);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(want[i])) << group;
      }
    });
  }
}

TEST(SumOfSquaresTest, FoldsSixteenPartialSums) {
  // Partial 0 holds 2^24 (4096 squared); partial 8 a 1, partial 4 a 1. Folding 8 first gives
  // 2^24 + 1 -> 2^24 (to even), then + 1 again 2^24: the order decides.
  std::vector<float> values(32);
  values[0] = 4096;
  values[8] = 1;
  values[4] = 1;
  EXPECT_EQ(SumOfSquares(values), 0x1p24F);
  values[12] = 1;  // joins partial 4 in the first fold: 2, which survives
  EXPECT_EQ(SumOfSquares(values), 0x1p24F + 2);
  values[16] = 1;  // second element of partial 0: lost to rounding
  EXPECT_EQ(SumOfSquares(values), 0x1p24F + 2);
}

TEST(SumOfSquaresTest, MatchesExactSumWithinItsBound) {
  const std::vector<float> values = RandomValues(128, 2);
  double exact = 0;
  for (const float value : values) exact += static_cast<double>(value) * static_cast<double>(value);
  // At most 1 product, 8 additions and 4 folds, each relative 2^-24.
  EXPECT_NEAR(SumOfSquares(values), exact, 13 * 0x1p-24 * exact);
}

}  // namespace
}  // namespace needle::quant
