#include "converter/report/histograms.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::report {
namespace {

format::Archive OpenTestdata(const std::string& name) {
  auto archive = format::Archive::Open(tests::Testdata(name));
  EXPECT_OK(archive);
  return *std::move(archive);
}

// At one bit an index is the bit itself, so the stored bytes' set bits count the upper entry.
TEST(HistogramsTest, CountsTheIndicesOfBinaryTensors) {
  const format::Archive archive = OpenTestdata("golden/n3-odd/binary.cact");
  uint64_t bits = 0;
  uint64_t set = 0;
  for (size_t i = 0; i < archive.records().size(); ++i) {
    if (archive.records()[i].bits != 1) continue;
    const format::CqView view = archive.Cq(i);
    for (const uint8_t byte : view.indices) set += static_cast<uint64_t>(std::popcount(byte));
    bits += 8 * view.indices.size();
  }
  const auto histograms = CountIndices(archive);
  ASSERT_OK(histograms);
  ASSERT_EQ((*histograms)[0].width, format::Width::kBinary);
  EXPECT_EQ((*histograms)[0].counts, (std::vector<uint64_t>{bits - set, set}));
  EXPECT_EQ((*histograms)[0].total(), bits);
  EXPECT_EQ((*histograms)[0].expected, (std::vector<double>{0.5, 0.5}));
}

TEST(HistogramsTest, HasOneForEachWidthNarrowOnesFirst) {
  const auto histograms = CountIndices(OpenTestdata("fixture/cq2.cact"));
  ASSERT_OK(histograms);
  ASSERT_EQ(histograms->size(), 2U);
  EXPECT_EQ((*histograms)[0].width, format::Width::kCq2);
  EXPECT_EQ((*histograms)[1].width, format::Width::kCq4);
}

// Lloyd-Max at two bits: entries at 0.4528 and 1.5104, so 16.3% of Gaussian values lie beyond the
// outer boundary at 0.9816. The reference's codebook is from 400,000 samples; the share beyond a
// boundary moves by about 6e-4 with them (one standard deviation), a fifth of the tolerance.
TEST(HistogramsTest, ExpectsWhatGaussianWeightsGive) {
  const auto histograms = CountIndices(OpenTestdata("fixture/cq2.cact"));
  ASSERT_OK(histograms);
  const IndexHistogram& cq2 = (*histograms)[0];
  EXPECT_NEAR(cq2.entries[3], 1.5104, 0.01);
  EXPECT_NEAR(cq2.expected[0], 0.1631, 0.003);
  EXPECT_NEAR(cq2.expected[1], 0.3369, 0.003);
  EXPECT_NEAR(std::accumulate(cq2.expected.begin(), cq2.expected.end(), 0.0), 1, 1e-12);
}

TEST(HistogramsTest, CountsEveryNormOnce) {
  const format::Archive archive = OpenTestdata("fixture/cq2.cact");
  uint64_t norms = 0;
  for (size_t i = 0; i < archive.records().size(); ++i) {
    if (archive.schema().tensors()[i].dtype != format::DType::kCq) continue;
    norms += archive.Cq(i).layout.rows * archive.Cq(i).layout.groups;
  }
  const NormHistogram histogram = CountNorms(archive);
  EXPECT_EQ(histogram.total, norms);
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), histogram.zero),
            norms);
  EXPECT_GT(histogram.counts.front(), 0U);
  EXPECT_GT(histogram.counts.back(), 0U);
  const double low = std::exp2(histogram.first_exponent);
  const double high = low * std::exp2(0.5 * static_cast<double>(histogram.counts.size()));
  EXPECT_GE(histogram.smallest, low);
  EXPECT_LT(histogram.largest, high);
}

}  // namespace
}  // namespace needle::report
