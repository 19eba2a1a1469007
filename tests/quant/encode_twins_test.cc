// The vectorised encoder gives the portable one's bits on every instruction set.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "quant/encode_kernel.h"
#include "tests/quant/simd_targets.h"
#include "tests/support/float_values.h"

namespace needle::quant {
namespace {

using format::Width;

constexpr uint32_t kEncodeSeed = 20240711;

struct Result {
  size_t bad = 0;
  std::vector<uint8_t> indices;
  std::vector<uint16_t> norms;
  EncodeStats stats;
};

using EncodeKernel = size_t (*)(const EncodeJob&, EncodeStats&);

Result Run(EncodeKernel kernel, const std::vector<float>& weights, size_t cols,
           const Codebook& codebook) {
  const size_t rows = weights.size() / cols;
  const auto layout = *format::CqLayout::Make(rows, cols, 128, codebook.width());
  Result result;
  result.indices.resize(rows * layout.row_bytes);
  result.norms.resize(rows * layout.groups);
  result.bad = kernel({weights, rows, cols, layout.groups, layout.row_bytes, &codebook,
                       result.indices, result.norms},
                      result.stats);
  return result;
}

void ExpectSameBits(const Result& portable, const Result& simd) {
  EXPECT_EQ(portable.bad, simd.bad);
  EXPECT_EQ(portable.stats.groups, simd.stats.groups);
  EXPECT_EQ(portable.stats.zero_groups, simd.stats.zero_groups);
  EXPECT_EQ(portable.stats.subnormal_norms, simd.stats.subnormal_norms);
  EXPECT_EQ(std::bit_cast<uint64_t>(portable.stats.squared_error),
            std::bit_cast<uint64_t>(simd.stats.squared_error));
  EXPECT_EQ(std::bit_cast<uint64_t>(portable.stats.squared_weights),
            std::bit_cast<uint64_t>(simd.stats.squared_weights));
  if (portable.bad != kNoBadGroup) return;  // outputs are unspecified
  EXPECT_EQ(portable.indices, simd.indices);
  EXPECT_EQ(portable.norms, simd.norms);
}

void ExpectTwins(const std::vector<float>& weights, size_t cols) {
  for (const Width width : format::kAllWidths) {
    SCOPED_TRACE(std::string(format::WidthName(width)));
    for (const CodebookKind kind : {CodebookKind::kReference, CodebookKind::kAnalytic}) {
      const Codebook codebook = Codebook::Standard(width, kind);
      const Result portable = Run(EncodeGroupsPortable, weights, cols, codebook);
      tests::ForEachSimdTarget(
          [&] { ExpectSameBits(portable, Run(EncodeGroupsSimd, weights, cols, codebook)); });
    }
  }
}

TEST(EncodeTwinsTest, RandomShapes) {
  std::mt19937 random(kEncodeSeed);
  for (int round = 0; round < 30; ++round) {
    const size_t rows = 1 + random() % 5;
    const size_t cols = 1 + random() % 520;
    SCOPED_TRACE(testing::Message()
                 << "seed " << kEncodeSeed << " round " << round << ": " << rows << " x " << cols);
    ExpectTwins(tests::GaussianFloats(rows * cols, static_cast<uint32_t>(random()), 0.02F), cols);
  }
}

TEST(EncodeTwinsTest, EveryScaleFromVanishingToTooLarge) {
  for (int exponent = -149; exponent < 128; exponent += 3) {
    SCOPED_TRACE(exponent);
    ExpectTwins(tests::GaussianFloats(256, kEncodeSeed, std::ldexp(1.0F, exponent)), 200);
  }
}

TEST(EncodeTwinsTest, DirectionsOnAndBesideEveryBoundary) {
  // A group that rotates to a few chosen values: the inverse rotation of multiples of thresholds,
  // and equal values whose directions all tie.
  for (const Width width : format::kAllWidths) {
    const Codebook codebook = Codebook::Standard(width);
    std::vector<float> weights;
    for (const float threshold : codebook.thresholds()) {
      for (uint32_t place = 0; place < 128; place += 17) {
        std::vector<float> group(128);
        group[0] = 1;
        group[place] += threshold * 128;
        weights.insert(weights.end(), group.begin(), group.end());
      }
    }
    ExpectTwins(weights, 128);
  }
}

TEST(EncodeTwinsTest, ZerosOfBothSignsAndBadValues) {
  std::vector<float> weights(3 * 200, -0.0F);
  ExpectTwins(weights, 200);
  weights[70] = 1;
  ExpectTwins(weights, 200);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), 3e38F, 1e20F, 65510.0F}) {
    weights[400 + 170] = bad;
    ExpectTwins(weights, 200);
  }
}

}  // namespace
}  // namespace needle::quant
