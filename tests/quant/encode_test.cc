#include "quant/encode.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "gtest/gtest.h"
#include "quant/pack.h"
#include "quant/rotate.h"
#include "tests/support/float_values.h"
#include "tests/support/status_matchers.h"

namespace needle::quant {
namespace {

using format::Width;
using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::StatusIs;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Encoded {
  std::vector<uint8_t> indices;
  std::vector<uint16_t> norms;
  EncodeStats stats;
};

absl::StatusOr<Encoded> Encode(const std::vector<float>& weights, size_t cols,
                               const Codebook& codebook) {
  const size_t rows = weights.size() / cols;
  const auto layout = *format::CqLayout::Make(rows, cols, codebook.group(), codebook.width());
  Encoded encoded{std::vector<uint8_t>(rows * layout.row_bytes),
                  std::vector<uint16_t>(rows * layout.groups),
                  {}};
  auto stats = EncodeRows(weights, cols, 0, codebook, encoded.indices, encoded.norms);
  if (!stats.ok()) return stats.status();
  encoded.stats = *stats;
  return encoded;
}

std::vector<float> Decode(const Encoded& encoded, size_t cols, const Codebook& codebook) {
  const size_t groups = (cols + codebook.group() - 1) / codebook.group();
  const size_t rows = encoded.norms.size() / groups;
  std::vector<uint8_t> norm_bytes;
  for (const uint16_t norm : encoded.norms) {
    norm_bytes.push_back(static_cast<uint8_t>(norm & 0xFF));
    norm_bytes.push_back(static_cast<uint8_t>(norm >> 8));
  }
  format::CqView view;
  view.width = codebook.width();
  view.group = codebook.group();
  view.layout = *format::CqLayout::Make(rows, cols, codebook.group(), codebook.width());
  view.indices = encoded.indices;
  view.norms = norm_bytes;
  std::vector<float> weights(rows * cols);
  EXPECT_OK(DecodeRows(view, codebook, 0, rows, weights));
  return weights;
}

TEST(EncodeTest, ExactBytesOfATinyGroup) {
  // Group 8, CQ2 entries chosen so that every step is exact but the scale 1/sqrt(8). The weights
  // 8, 0, ... rotate to 8/sqrt(8) eight times: norm 8, direction 1/sqrt(8) = 0.354 everywhere.
  const auto codebook =
      Codebook::FromEntries(Width::kCq2, 8, std::vector<float>{-0.5F, -0.125F, 0.125F, 0.5F});
  ASSERT_OK(codebook);
  const auto encoded = Encode({8, 0, 0, 0, 0, 0, 0, 0}, 8, *codebook);
  ASSERT_OK(encoded);
  // 0.354 is nearer to 0.5 than to 0.125: index 3 for all.
  EXPECT_EQ(encoded->indices, (std::vector<uint8_t>{0xFF, 0xFF}));
  EXPECT_EQ(encoded->norms, (std::vector<uint16_t>{0x4800}));  // 8.0
  // Decoded: 0.5 * 8 = 4 eight times, rotated: 32 / sqrt(8) at 0.
  const std::vector<float> decoded = Decode(*encoded, 8, *codebook);
  EXPECT_EQ(decoded[0], 32 * RotationScale(8));
  for (size_t i = 1; i < 8; ++i) EXPECT_EQ(decoded[i], 0.0F);
  EXPECT_EQ(encoded->stats.groups, 1U);
}

TEST(EncodeTest, FollowsTheSpecificationStepByStep) {
  const std::vector<float> weights = tests::GaussianFloats(3 * 200, 3);
  for (const Width width : format::kAllWidths) {
    const Codebook codebook = Codebook::Standard(width);
    const auto encoded = Encode(weights, 200, codebook);
    ASSERT_OK(encoded);
    std::vector<uint8_t> want_indices;
    std::vector<uint16_t> want_norms;
    for (size_t row = 0; row < 3; ++row) {
      std::vector<float> padded(256);
      for (size_t i = 0; i < 200; ++i) padded[i] = weights[row * 200 + i];
      Rotate(padded, 128);
      std::vector<uint8_t> codes;
      for (size_t group = 0; group < 2; ++group) {
        const std::span<const float> r = std::span(padded).subspan(group * 128, 128);
        const float norm = std::sqrt(SumOfSquares(r));
        want_norms.push_back(base::F16FromF32(norm));
        for (const float value : r) {
          codes.push_back(static_cast<uint8_t>(codebook.Nearest(value / norm)));
        }
      }
      std::vector<uint8_t> packed(256 * format::StoredBits(width) / 8);
      PackRow(width, codes, packed);
      want_indices.insert(want_indices.end(), packed.begin(), packed.end());
    }
    EXPECT_EQ(encoded->indices, want_indices) << format::WidthName(width);
    EXPECT_EQ(encoded->norms, want_norms) << format::WidthName(width);
  }
}

// The expected squared error of `codebook` on one coordinate of a random direction in 128
// dimensions, relative to its mean square 1/128: the density of x = u * sqrt(128) is proportional
// to (1 - x^2/128)^((128 - 3)/2), whose tails are a little lighter than the Gaussian's.
double DistortionOnTheSphere(const Codebook& codebook) {
  constexpr double kStep = 1e-4;
  const double root = std::sqrt(128.0);
  double mass = 0;
  double error = 0;
  for (double x = -root + kStep / 2; x < root; x += kStep) {
    const double density = std::pow(1 - x * x / 128, 62.5);
    const float entry = codebook.entries()[codebook.Nearest(static_cast<float>(x / root))];
    const double difference = static_cast<double>(entry) * root - x;
    mass += density;
    error += density * difference * difference;
  }
  return error / mass;
}

TEST(EncodeTest, GaussianWeightsReachTheTheoreticalDistortion) {
  const std::vector<float> weights = tests::GaussianFloats(4096 * 128, 4);
  for (const Width width : format::kAllWidths) {
    const auto encoded = Encode(weights, 1024, Codebook::Standard(width));
    ASSERT_OK(encoded);
    // One weight's squared error has a standard deviation below 2 times its mean, so the mean over
    // 524,288 weights is within 4 * 2 / sqrt(524288) = 1.1 % of its expectation.
    const double expected = DistortionOnTheSphere(Codebook::Standard(width));
    EXPECT_NEAR(encoded->stats.RelativeError(), expected, 0.011 * expected)
        << format::WidthName(width);
    // The table is for the Gaussian: lighter tails (fourth moment 3 * 128/130, 1.5 % less) matter
    // most at 4 bits, where clipped values carry the largest share of the error.
    const double theory = TheoreticalDistortion(width);
    EXPECT_NEAR(expected, theory, 0.03 * theory) << format::WidthName(width);
  }
}

TEST(EncodeTest, StatsEqualTheErrorOfTheDecodedWeights) {
  const std::vector<float> weights = tests::GaussianFloats(8 * 256, 5);
  for (const Width width : format::kAllWidths) {
    const Codebook codebook = Codebook::Standard(width);
    const auto encoded = Encode(weights, 256, codebook);
    ASSERT_OK(encoded);
    const std::vector<float> decoded = Decode(*encoded, 256, codebook);
    double error = 0;
    double squares = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double difference = static_cast<double>(decoded[i]) - static_cast<double>(weights[i]);
      error += difference * difference;
      squares += static_cast<double>(weights[i]) * static_cast<double>(weights[i]);
    }
    // Rotations keep sums of squares up to f32 rounding: about 20 operations of 2^-24 on values of
    // size 1 against an error of at least 0.09 a weight.
    EXPECT_NEAR(encoded->stats.squared_error, error, 1e-4 * error) << format::WidthName(width);
    EXPECT_NEAR(encoded->stats.squared_weights, squares, 1e-5 * squares);
    EXPECT_EQ(encoded->stats.groups, 16U);
  }
}

TEST(EncodeTest, ZeroGroupsDecodeToExactZeros) {
  for (const float zero : {0.0F, -0.0F}) {
    for (const Width width : format::kAllWidths) {
      const Codebook codebook = Codebook::Standard(width);
      const auto encoded = Encode(std::vector<float>(2 * 130, zero), 130, codebook);
      ASSERT_OK(encoded);
      EXPECT_EQ(encoded->norms, std::vector<uint16_t>(4, 0));
      EXPECT_EQ(encoded->stats.zero_groups, 4U);
      EXPECT_EQ(encoded->stats.subnormal_norms, 0U);
      for (const float value : Decode(*encoded, 130, codebook)) EXPECT_EQ(value, 0.0F);
    }
  }
}

TEST(EncodeTest, VanishingNormsAreCountedAlsoWhenTheyRoundToZero) {
  const Codebook codebook = Codebook::Standard(Width::kCq4);
  struct Case {
    float weight;
    bool counted;
  };
  // Norms sqrt(128) * weight; at 1e-25 even the squares vanish. 5.3e-6 gives a norm of 6.0e-5 and
  // 5.5e-6 one of 6.2e-5, on either side of 6.1e-5.
  for (const Case& c : {Case{1e-11F, true}, Case{1e-25F, true}, Case{1e-45F, true},
                        Case{5.3e-6F, true}, Case{5.5e-6F, false}}) {
    const auto encoded = Encode(std::vector<float>(128, c.weight), 128, codebook);
    ASSERT_OK(encoded);
    EXPECT_EQ(encoded->stats.subnormal_norms, c.counted ? 1U : 0U) << c.weight;
    EXPECT_EQ(encoded->stats.zero_groups, 0U);
    for (const float value : Decode(*encoded, 128, codebook)) EXPECT_TRUE(std::isfinite(value));
  }
}

// A row of 256 whose second group has exactly the norm `norm` as computed in f32: two weights a, b
// have the norm sqrt(a^2 + b^2), and small steps of b move it through all floats nearby.
std::vector<float> RowWithNorm(float norm) {
  std::vector<float> row(256);
  row[0] = 1;
  for (int step = 0; step < 4000; ++step) {
    row[128] = norm - 0.05F;
    row[129] = static_cast<float>(step) / 16;
    std::vector<float> group(row.begin() + 128, row.end());
    Rotate(group, 128);
    if (std::sqrt(SumOfSquares(group)) == norm) return row;
  }
  ADD_FAILURE() << "no weights give the norm " << norm;
  return row;
}

TEST(EncodeTest, RefusesANormAbove65504) {
  const Codebook codebook = Codebook::Standard(Width::kCq2);
  const auto fits = Encode(RowWithNorm(65504), 256, codebook);
  ASSERT_OK(fits);
  EXPECT_EQ(fits->norms[1], 0x7BFF);
  // 65510 would round to 65504, but does not fit all the same.
  for (const float norm : {65510.0F, 65520.0F}) {
    EXPECT_THAT(
        Encode(RowWithNorm(norm), 256, codebook),
        StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("row 0, columns 128 to 255"),
                                                    HasSubstr("655"), HasSubstr("at most 65504"))));
  }
}

TEST(EncodeTest, RefusesSquaresBeyondF32AsANorm) {
  for (const float weight : {1e20F, 3e38F, -3e38F}) {
    std::vector<float> weights(2 * 130, 1.0F);
    weights[130 + 129] = weight;
    weights[130 + 128] = weight;
    EXPECT_THAT(Encode(weights, 130, Codebook::Standard(Width::kCq4)),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr("row 1, columns 128 to 129"), HasSubstr("norm"))));
  }
}

TEST(EncodeTest, RefusesWhatIsNotFiniteWithRowAndColumn) {
  for (const float bad : {kNan, kInf, -kInf}) {
    std::vector<float> weights(3 * 200, 1.0F);
    weights[2 * 200 + 199] = bad;
    std::vector<uint8_t> indices(3 * 64);
    std::vector<uint16_t> norms(6);
    const auto stats =
        EncodeRows(weights, 200, 40, Codebook::Standard(Width::kCq2), indices, norms);
    EXPECT_THAT(stats, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("row 42, column 199: ")));
  }
}

TEST(EncodeTest, RefusesSizesThatDoNotFit) {
  const Codebook codebook = Codebook::Standard(Width::kCq2);
  const std::vector<float> weights(256);
  std::vector<uint8_t> indices(64);
  std::vector<uint16_t> norms(2);
  const auto encode = [&](size_t count, size_t cols, size_t bytes, size_t num_norms) {
    return EncodeRows(std::span(weights).first(count), cols, 0, codebook,
                      std::span(indices).first(bytes), std::span(norms).first(num_norms));
  };
  EXPECT_OK(encode(256, 128, 64, 2));
  EXPECT_OK(encode(0, 128, 0, 0));
  EXPECT_FALSE(encode(255, 128, 64, 2).ok());
  EXPECT_FALSE(encode(256, 128, 63, 2).ok());
  EXPECT_FALSE(encode(256, 128, 64, 1).ok());
  EXPECT_FALSE(encode(256, 0, 64, 2).ok());
}

TEST(EncodeTest, RowsAreIndependent) {
  const std::vector<float> weights = tests::GaussianFloats(5 * 300, 6);
  const Codebook codebook = Codebook::Standard(Width::kCq3);
  const auto whole = Encode(weights, 300, codebook);
  ASSERT_OK(whole);
  std::vector<uint8_t> indices;
  std::vector<uint16_t> norms;
  for (size_t row = 0; row < 5; ++row) {
    const auto begin = weights.begin() + static_cast<ptrdiff_t>(row * 300);
    const auto one = Encode({begin, begin + 300}, 300, codebook);
    ASSERT_OK(one);
    indices.insert(indices.end(), one->indices.begin(), one->indices.end());
    norms.insert(norms.end(), one->norms.begin(), one->norms.end());
  }
  EXPECT_EQ(indices, whole->indices);
  EXPECT_EQ(norms, whole->norms);
}

TEST(DecodeTest, RefusesSizesThatDoNotFit) {
  const Codebook codebook = Codebook::Standard(Width::kCq2);
  const std::vector<uint8_t> blob(4 * 32 + 4 * 2);
  format::CqView view;
  view.width = Width::kCq2;
  view.group = 128;
  view.layout = *format::CqLayout::Make(4, 100, 128, Width::kCq2);
  view.indices = std::span(blob).first(4 * 32);
  view.norms = std::span(blob).subspan(4 * 32);
  std::vector<float> weights(200);
  EXPECT_OK(DecodeRows(view, codebook, 2, 2, weights));
  EXPECT_FALSE(DecodeRows(view, codebook, 3, 2, weights).ok());
  EXPECT_FALSE(DecodeRows(view, codebook, 5, 0, {}).ok());
  EXPECT_FALSE(DecodeRows(view, codebook, 0, 1, weights).ok());
  EXPECT_FALSE(DecodeRows(view, Codebook::Standard(Width::kCq3), 2, 2, weights).ok());
}

}  // namespace
}  // namespace needle::quant
