#include "quant/codebook.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/legacy_random.h"
#include "gtest/gtest.h"
#include "tests/support/float_values.h"
#include "tests/support/status_matchers.h"

namespace needle::quant {
namespace {

using format::Width;
using ::testing::HasSubstr;
using tests::StatusIs;

// One step of the Monte-Carlo recipe: each centroid becomes the mean of its cell. `sorted` ascends,
// so a cell is a range; a sample equal to a boundary belongs to the lower cell.
void LloydStep(const std::vector<double>& sorted, const std::vector<double>& sums,
               std::vector<double>& centroids) {
  std::vector<size_t> ends;
  for (size_t k = 0; k + 1 < centroids.size(); ++k) {
    const double boundary = (centroids[k] + centroids[k + 1]) / 2;
    ends.push_back(static_cast<size_t>(std::upper_bound(sorted.begin(), sorted.end(), boundary) -
                                       sorted.begin()));
  }
  ends.push_back(sorted.size());
  size_t begin = 0;
  for (size_t k = 0; k < centroids.size(); ++k) {
    centroids[k] = (sums[ends[k]] - sums[begin]) / static_cast<double>(ends[k] - begin);
    begin = ends[k];
  }
}

TEST(CodebookTest, MonteCarloRecipeGivesTheReferenceBits) {
  constexpr size_t kSamples = 400000;
  base::LegacyRandom random(0);
  std::vector<double> samples(kSamples);
  for (double& sample : samples) sample = random.NextGaussian();
  std::sort(samples.begin(), samples.end());
  std::vector<double> sums(kSamples + 1);
  for (size_t i = 0; i < kSamples; ++i) sums[i + 1] = sums[i] + samples[i];

  std::vector<float> stored;
  for (const size_t levels : {4U, 8U, 16U}) {
    std::vector<double> centroids;
    for (size_t k = 0; k < levels; ++k) {
      const double place = (static_cast<double>(k) + 0.5) / static_cast<double>(levels);
      centroids.push_back(samples[static_cast<size_t>(place * static_cast<double>(kSamples))]);
    }
    for (int step = 0; step < 200; ++step) LloydStep(samples, sums, centroids);
    for (const double centroid : centroids) {
      stored.push_back(static_cast<float>(centroid / std::sqrt(128.0)));
    }
  }
  EXPECT_EQ(tests::FloatBits(stored), tests::FloatBits(StoredCodebooks(CodebookKind::kReference)));
}

double Density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double UpperTail(double x) { return std::erfc(x / std::numbers::sqrt2) / 2; }

struct LloydMax {
  std::vector<double> positive;  // the upper half of the symmetric codebook
  double distortion = 0;
};

// The Lloyd-Max fixed point of the unit Gaussian: each entry is the mean of its cell. For an even
// number of levels 0 is a boundary, so the positive half is enough.
LloydMax SolveLloydMax(size_t levels) {
  const size_t half = levels / 2;
  std::vector<double> entries(half);
  for (size_t k = 0; k < half; ++k) {
    entries[k] = (static_cast<double>(k) + 0.5) * 4 / static_cast<double>(levels);
  }
  double captured = 0;
  for (int step = 0; step < 4000; ++step) {
    captured = 0;
    const std::vector<double> old = entries;
    for (size_t k = 0; k < half; ++k) {
      const double low = k == 0 ? 0 : (old[k - 1] + old[k]) / 2;
      const bool last = k + 1 == half;
      const double high =
          last ? std::numeric_limits<double>::infinity() : (old[k] + old[k + 1]) / 2;
      const double mass = UpperTail(low) - (last ? 0 : UpperTail(high));
      entries[k] = (Density(low) - (last ? 0 : Density(high))) / mass;
      captured += 2 * entries[k] * entries[k] * mass;
    }
  }
  return {entries, 1 - captured};
}

TEST(CodebookTest, AnalyticConstantsAreTheLloydMaxFixedPoint) {
  std::vector<float> stored;
  for (const size_t levels : {4U, 8U, 16U}) {
    const std::vector<double> half = SolveLloydMax(levels).positive;
    for (size_t k = levels / 2; k-- > 0;) {
      stored.push_back(static_cast<float>(-half[k] / std::sqrt(128.0)));
    }
    for (const double entry : half) stored.push_back(static_cast<float>(entry / std::sqrt(128.0)));
  }
  EXPECT_EQ(tests::FloatBits(stored), tests::FloatBits(StoredCodebooks(CodebookKind::kAnalytic)));
}

TEST(CodebookTest, TheoryTableAgreesWithTheIntegrals) {
  // The table's figures are those of Max's 1960 tables, good to about 5 in 10,000.
  EXPECT_NEAR(TheoreticalDistortion(Width::kBinary), SolveLloydMax(2).distortion, 5e-5);
  EXPECT_NEAR(TheoreticalDistortion(Width::kCq2), SolveLloydMax(4).distortion, 5e-5);
  EXPECT_NEAR(TheoreticalDistortion(Width::kCq3), SolveLloydMax(8).distortion, 1e-5);
  EXPECT_NEAR(TheoreticalDistortion(Width::kCq4), SolveLloydMax(16).distortion, 5e-6);
  // Three levels -c, 0, c with boundaries at c/2: 1 - 2c * 2 density(c/2) + 2 c^2 tail(c/2).
  const double c = 1.2240064;
  const double ternary = 1 - 4 * c * Density(c / 2) + 2 * c * c * UpperTail(c / 2);
  EXPECT_NEAR(TheoreticalDistortion(Width::kTernary), ternary, 5e-5);
}

TEST(CodebookTest, TernaryAndBinaryAreAnalyticAtAnyGroup) {
  const Codebook ternary = Codebook::Standard(Width::kTernary);
  const auto outer = static_cast<float>(1.2240064 / std::sqrt(128.0));
  EXPECT_EQ(tests::FloatBits(ternary.entries()),
            tests::FloatBits(std::vector<float>{-outer, 0.0F, outer}));
  const auto binary = Codebook::Make(Width::kBinary, 64, {});
  ASSERT_OK(binary);
  const auto entry = static_cast<float>(std::sqrt(2 / std::numbers::pi) / 8);
  EXPECT_EQ(tests::FloatBits(binary->entries()),
            tests::FloatBits(std::vector<float>{-entry, entry}));
}

TEST(CodebookTest, AnotherGroupScalesTheStoredEntries) {
  const auto stored = StoredCodebooks(CodebookKind::kReference);
  const auto codebook = Codebook::Make(Width::kCq3, 32, stored);
  ASSERT_OK(codebook);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(codebook->entries()[i], stored[4 + i] * 2);
}

TEST(CodebookTest, RefusesWhatIsNoCodebook) {
  const auto reference = StoredCodebooks(CodebookKind::kReference);
  std::vector<float> stored(reference.begin(), reference.end());
  const auto make = [&](uint32_t group) { return Codebook::Make(Width::kCq2, group, stored); };
  for (const uint32_t group : {0U, 4U, 96U}) {
    EXPECT_THAT(make(group), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("group")));
  }
  std::swap(stored[1], stored[2]);
  EXPECT_THAT(make(128), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("entry 2")));
  stored[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(make(128), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("entry 2")));
  stored.pop_back();
  EXPECT_THAT(make(128), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("27 values")));
}

// The specification's rule, read word by word.
uint32_t SpecifiedIndex(std::span<const float> c, float u) {
  size_t p = 0;
  while (p < c.size() && !(c[p] >= u)) ++p;
  p = std::clamp<size_t>(p, 1, c.size() - 1);
  return static_cast<uint32_t>(std::fabs(u - c[p - 1]) <= std::fabs(u - c[p]) ? p - 1 : p);
}

uint32_t CountBelow(std::span<const float> thresholds, float u) {
  return static_cast<uint32_t>(
      std::count_if(thresholds.begin(), thresholds.end(), [&](float t) { return u > t; }));
}

class CodebookSearchTest : public ::testing::TestWithParam<Width> {};
INSTANTIATE_TEST_SUITE_P(Widths, CodebookSearchTest, ::testing::ValuesIn(format::kAllWidths));

TEST_P(CodebookSearchTest, RuleAndThresholdsAgreeAroundEveryBoundaryAndEntry) {
  for (const CodebookKind kind : {CodebookKind::kReference, CodebookKind::kAnalytic}) {
    const Codebook codebook = Codebook::Standard(GetParam(), kind);
    const auto entries = codebook.entries();
    std::vector<float> places(entries.begin(), entries.end());
    places.insert(places.end(), codebook.thresholds().begin(), codebook.thresholds().end());
    places.insert(places.end(), {0.0F, 1.0F, -1.0F});
    for (const float place : places) {
      float u = place;
      for (int i = 0; i < 5000; ++i) u = std::nextafter(u, -3.0F);
      for (int i = 0; i < 10000; ++i, u = std::nextafter(u, 3.0F)) {
        const uint32_t want = SpecifiedIndex(entries, u);
        ASSERT_EQ(codebook.Nearest(u), want) << u;
        ASSERT_EQ(CountBelow(codebook.thresholds(), u), want) << u;
      }
    }
  }
}

TEST_P(CodebookSearchTest, RuleAndThresholdsAgreeOverTheWholeRange) {
  const Codebook codebook = Codebook::Standard(GetParam());
  // A step of 997 patterns visits 2 million floats of [-2, 2], subnormals among them.
  for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(2.0F); bits += 997) {
    for (const uint32_t sign : {0U, 0x80000000U}) {
      const auto u = std::bit_cast<float>(bits | sign);
      ASSERT_EQ(CountBelow(codebook.thresholds(), u), codebook.Nearest(u)) << u;
    }
  }
}

TEST(CodebookTest, TieGoesToTheLowerEntry) {
  // Ternary's boundary c/2 is exact: u - 0 and c - u are then equal.
  const Codebook codebook = Codebook::Standard(Width::kTernary);
  const float middle = codebook.entries()[2] / 2;
  EXPECT_EQ(codebook.Nearest(middle), 1U);
  EXPECT_EQ(codebook.Nearest(std::nextafter(middle, 1.0F)), 2U);
  EXPECT_EQ(codebook.Nearest(-middle), 0U);
}

TEST(CodebookTest, EntriesTooCloseForThresholdsHaveNone) {
  const std::vector<float> close = {0.5F, std::nextafter(0.5F, 1.0F)};
  const auto codebook = Codebook::FromEntries(Width::kBinary, 128, close);
  ASSERT_OK(codebook);
  EXPECT_TRUE(codebook->thresholds().empty());
}

}  // namespace
}  // namespace needle::quant
