#include "converter/calibrate/bit_search.h"

#include <algorithm>
#include <memory>
#include <string>

#include "converter/build.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/fixture.h"

namespace needle::calibrate {
namespace {

using ::testing::HasSubstr;
using verify::ValueOf;

// Of the fixture at the default scheme; as the reference's cq2.cact.
constexpr uint64_t kDefaultBytes = 793251;

std::shared_ptr<const converter::Checkpoint> OpenCheckpoint(const std::string& name) {
  return ValueOf(converter::Checkpoint::Open(tests::Testdata(name)));
}

// Plain rounding, and little text: enough to run every step.
BitSearchOptions Options(size_t threads = 2) {
  BitSearchOptions options;
  options.calibrate.recipe = Recipe::kRtn;
  options.calibrate.data = tests::Testdata("fixture/calibration.jsonl");
  options.calibrate.max_tokens = 2000;
  options.calibrate.threads = threads;
  options.measure_tokens = 600;
  return options;
}

absl::StatusOr<BitSearch> SearchFixture(const BitSearchOptions& options,
                                        const converter::PlanOptions& plan = {}) {
  return SearchWidths(OpenCheckpoint("fixture/checkpoint.safetensors"), plan, options);
}

// One search, which several tests look at.
class BitSearchTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    BitSearchOptions options = Options();
    options.target_bytes = kDefaultBytes;
    search_ = std::make_unique<BitSearch>(ValueOf(SearchFixture(options)));
  }
  static void TearDownTestSuite() { search_.reset(); }

  static std::unique_ptr<BitSearch> search_;
};
std::unique_ptr<BitSearch> BitSearchTest::search_;

TEST_F(BitSearchTest, NeverExceedsTheTarget) {
  ASSERT_GE(search_->report.schemes.size(), 2U);
  for (const SchemeMeasure& scheme : search_->report.schemes) {
    EXPECT_LE(scheme.file_bytes, kDefaultBytes) << scheme.name;
  }
  const tests::TempFolder folder;
  converter::BuildOptions build;
  build.encoder = search_->calibration.encoder.get();
  const auto report = converter::Build(*search_->plan, folder.File("a.cact"), build);
  ASSERT_OK(report);
  EXPECT_EQ(report->file_bytes, search_->report.schemes[search_->report.chosen].file_bytes);
}

TEST_F(BitSearchTest, MeasuresEveryKeyAtEveryWidth) {
  // embedding, 5 projections of 6 layers, 3 mhc_phi, 3 of each of the two sites.
  ASSERT_EQ(search_->report.keys.size(), 40U);
  EXPECT_EQ(search_->report.keys[1].key, "layer00.q_proj");
  EXPECT_EQ(search_->report.keys[34].key, "engram0.tables");
  for (const KeySensitivity& key : search_->report.keys) {
    ASSERT_EQ(key.widths.size(), 4U);
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_GT(key.widths[i].bytes, key.widths[i - 1].bytes) << key.key;
      EXPECT_LE(key.widths[i].cost, key.widths[i - 1].cost) << key.key;
    }
    EXPECT_GT(key.widths[0].kl, 0) << key.key;
  }
  EXPECT_EQ(search_->report.sensitivity_examples, search_->report.examples);
}

// The default scheme fits exactly, so what was found cannot be predicted to be worse.
TEST_F(BitSearchTest, IsPredictedToBeAtLeastAsGoodAsTheOthers) {
  for (const SchemeMeasure& scheme : search_->report.schemes) {
    EXPECT_LE(search_->report.schemes[0].predicted, scheme.predicted) << scheme.name;
  }
}

TEST_F(BitSearchTest, KeepsTheBestThatItMeasured) {
  const SchemeMeasure& chosen = search_->report.schemes[search_->report.chosen];
  for (const SchemeMeasure& scheme : search_->report.schemes) {
    EXPECT_LE(chosen.all.kl_mean, scheme.all.kl_mean) << scheme.name;
  }
  const auto map = quant::BitMap::Parse(chosen.bit_map);
  ASSERT_OK(map);
  EXPECT_TRUE(std::ranges::equal(
      search_->plan->widths(),
      verify::MakePlan("fixture/checkpoint.safetensors", chosen.bit_map)->widths()));
}

TEST_F(BitSearchTest, DoesNotDependOnThreads) {
  BitSearchOptions options = Options(1);
  options.target_bytes = kDefaultBytes;
  const BitSearch again = ValueOf(SearchFixture(options));
  ASSERT_EQ(again.report.keys.size(), search_->report.keys.size());
  for (size_t i = 0; i < again.report.keys.size(); ++i) {
    for (size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(again.report.keys[i].widths[j].kl, search_->report.keys[i].widths[j].kl);
    }
  }
  EXPECT_EQ(again.report.schemes[0].bit_map, search_->report.schemes[0].bit_map);
}

TEST(BitSearchTargetTest, NamesTheSmallestSizeThatIsPossible) {
  BitSearchOptions options = Options();
  options.target_bytes = 100000;
  const uint64_t smallest =
      verify::MakePlan("fixture/checkpoint.safetensors", "default=1")->layout().file_bytes;
  EXPECT_THAT(SearchFixture(options), tests::StatusIs(absl::StatusCode::kInvalidArgument,
                                                      HasSubstr(std::to_string(smallest))));
}

TEST(BitSearchTargetTest, WantsOneTarget) {
  BitSearchOptions options = Options();
  EXPECT_THAT(SearchFixture(options),
              tests::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one of the two")));
  options.target_bytes = kDefaultBytes;
  options.target_bits = 2;
  EXPECT_THAT(SearchFixture(options),
              tests::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one of the two")));
  options.target_bytes.reset();
  options.target_bits = 0.9;
  EXPECT_THAT(SearchFixture(options),
              tests::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 1")));
}

TEST(BitSearchTargetTest, TakesTheSmallestSizeItself) {
  BitSearchOptions options = Options();
  options.target_bytes =
      verify::MakePlan("fixture/checkpoint.safetensors", "default=1")->layout().file_bytes;
  const BitSearch search = ValueOf(SearchFixture(options));
  EXPECT_EQ(search.report.schemes[0].bit_map, "default=1");
}

TEST(BitSearchTargetTest, KeepsToATargetOfBits) {
  BitSearchOptions options = Options();
  options.target_bits = 2.4;
  const BitSearch search = ValueOf(SearchFixture(options));
  for (const SchemeMeasure& scheme : search.report.schemes) EXPECT_LE(scheme.bits, 2.4);
  // A map that leaves a tenth of a bit unused would be a poor one.
  EXPECT_GT(search.report.schemes[0].bits, 2.3);
}

// Depth 2 of 6 keeps blocks 0 and 5, and the site at 5 of sites at 2 and 5, which keys name
// engram1.
TEST(BitSearchTargetTest, NamesLayersAndSitesAsTheCheckpointDoes) {
  BitSearchOptions options = Options();
  options.target_bits = 2;
  converter::PlanOptions plan;
  plan.layers = 2;
  const BitSearch search = ValueOf(SearchFixture(options, plan));
  EXPECT_EQ(search.report.keys[6].key, "layer05.q_proj");
  EXPECT_EQ(search.report.keys.back().key, "engram1.value_proj");
  EXPECT_EQ(search.plan->geometry().num_layers, 2U);
}

// The tokenizer is the fixture's: any ids serve to measure a random model.
TEST(BitSearchTargetTest, WorksForNeedle2) {
  BitSearchOptions options = Options();
  options.target_bits = 2.5;
  converter::PlanOptions plan;
  plan.tokenizer = tests::Testdata("fixture/tokenizer.model");
  const auto search =
      SearchWidths(OpenCheckpoint("golden/n2-small/checkpoint.safetensors"), plan, options);
  ASSERT_OK(search);
  EXPECT_LE(search->report.schemes[search->report.chosen].bits, 2.5);
}

}  // namespace
}  // namespace needle::calibrate
