#include "quant/norm_search.h"

#include <vector>

#include "format/width.h"
#include "gtest/gtest.h"
#include "tests/calibrate/random_values.h"
#include "tests/support/status_matchers.h"

namespace needle::quant {
namespace {

constexpr size_t kPaddedCols = 320;  // two whole groups, and one that is padded
constexpr size_t kRows = 64;

struct Encoded {
  std::vector<uint8_t> indices;
  std::vector<uint16_t> norms;
  EncodeStats stats;
};

Encoded Encode(bool search, const std::vector<float>& weights, const Codebook& codebook) {
  const auto layout = format::CqLayout::Make(kRows, kPaddedCols, 128, codebook.width());
  Encoded result;
  result.indices.resize(kRows * layout->row_bytes);
  result.norms.resize(kRows * layout->groups);
  const auto stats = (search ? SearchRows : EncodeRows)(weights, kPaddedCols, 0, codebook,
                                                        result.indices, result.norms);
  EXPECT_TRUE(stats.ok()) << stats.status();
  result.stats = *stats;
  return result;
}

class NormSearchTest : public testing::TestWithParam<format::Width> {};

TEST_P(NormSearchTest, NoGroupGetsWorse) {
  const std::vector<float> weights = tests::GaussianFloats(kRows * kPaddedCols, 3);
  const Codebook codebook = Codebook::Standard(GetParam());
  for (size_t row = 0; row < kRows; ++row) {
    const auto one = std::span(weights).subspan(row * kPaddedCols, kPaddedCols);
    const auto layout = format::CqLayout::Make(1, kPaddedCols, 128, GetParam());
    std::vector<uint8_t> indices(layout->row_bytes);
    std::vector<uint16_t> norms(layout->groups);
    const auto plain = EncodeRows(one, kPaddedCols, 0, codebook, indices, norms);
    const auto searched = SearchRows(one, kPaddedCols, 0, codebook, indices, norms);
    // The stats are f32 sums, the choice is made in f64: 128 roundings of 2^-24.
    EXPECT_LE(searched->squared_error, plain->squared_error * (1 + 128 * 6e-8));
  }
}

TEST_P(NormSearchTest, MeasureAgreesWithTheEncoder) {
  const std::vector<float> weights = tests::GaussianFloats(kRows * kPaddedCols, 4);
  const Codebook codebook = Codebook::Standard(GetParam());
  const Encoded plain = Encode(false, weights, codebook);
  const auto measured = MeasureRows(weights, kPaddedCols, codebook, plain.indices, plain.norms);
  ASSERT_TRUE(measured.ok());
  EXPECT_EQ(measured->groups, plain.stats.groups);
  EXPECT_EQ(measured->squared_error, plain.stats.squared_error);
  EXPECT_EQ(measured->squared_weights, plain.stats.squared_weights);
}

INSTANTIATE_TEST_SUITE_P(AllWidths, NormSearchTest, testing::ValuesIn(format::kAllWidths));

// The goal of calibrated quantisation: at 4 bits at most 0.85 of plain rounding's error on Gaussian
// weights. Over 192 groups the ratio's own spread is below 0.01.
TEST(NormSearchTest, FourBitsGainAsPromised) {
  const std::vector<float> weights = tests::GaussianFloats(kRows * kPaddedCols, 5);
  const Codebook codebook = Codebook::Standard(format::Width::kCq4);
  const double plain = Encode(false, weights, codebook).stats.RelativeError();
  const double searched = Encode(true, weights, codebook).stats.RelativeError();
  EXPECT_LE(searched / plain, 0.85);
  RecordProperty("ratio", std::to_string(searched / plain));
}

TEST(NormSearchTest, RefusesWhatPlainRoundingRefuses) {
  std::vector<float> weights(kRows * kPaddedCols, 1.0F);
  weights[kPaddedCols + 5] = std::nanf("");
  const Codebook codebook = Codebook::Standard(format::Width::kCq2);
  const auto layout = format::CqLayout::Make(kRows, kPaddedCols, 128, format::Width::kCq2);
  std::vector<uint8_t> indices(kRows * layout->row_bytes);
  std::vector<uint16_t> norms(kRows * layout->groups);
  EXPECT_EQ(SearchRows(weights, kPaddedCols, 0, codebook, indices, norms).status().message(),
            EncodeRows(weights, kPaddedCols, 0, codebook, indices, norms).status().message());
  EXPECT_FALSE(SearchRows(weights, kPaddedCols, 0, codebook, indices, norms).ok());
}

}  // namespace
}  // namespace needle::quant
