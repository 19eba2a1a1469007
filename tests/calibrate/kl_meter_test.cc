#include "converter/calibrate/kl_meter.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/fixture.h"

namespace needle::calibrate {
namespace {

using engine::Numerics;

class KlMeterTest : public ::testing::Test {
 protected:
  const engine::Model floats_ =
      verify::LoadFloats(verify::MakePlan("fixture/checkpoint.safetensors"));
  const engine::Model archive_ =
      verify::LoadArchive(tests::Testdata("fixture/cq2.cact"), Numerics::kA8);
  base::ThreadPool pool_{2};
  // The first has an answer, the last two tokens.
  const KlMeter meter_ = verify::ValueOf(KlMeter::Make(
      floats_, {{{2, 17, 30, 41, 52}, 3}, {{2, 100, 200}, 0}, {{2, 5, 6, 7}, 0}, {{2, 9}, 0}},
      pool_));
};

TEST_F(KlMeterTest, AModelIsAtNoDistanceFromItself) {
  const ExampleScores scores = verify::ValueOf(meter_.Measure(floats_));
  ASSERT_EQ(scores.size(), 4U);
  EXPECT_EQ(SumUp(scores).kl_mean, 0);
  EXPECT_EQ(SumUp(scores).top1, 1);
  EXPECT_EQ(SumUp(scores).sequences_exact, 1);
}

TEST_F(KlMeterTest, CountsAnswersOrAllPositions) {
  const ExampleScores scores = verify::ValueOf(meter_.Measure(archive_));
  EXPECT_EQ(scores[0].size(), 2U);  // those before 41 and 52
  EXPECT_EQ(scores[1].size(), 3U);
  EXPECT_GT(SumUp(scores).kl_mean, 0);
}

TEST_F(KlMeterTest, AStepTakesEverySoManyExamples) {
  const ExampleScores all = verify::ValueOf(meter_.Measure(archive_));
  const ExampleScores third = verify::ValueOf(meter_.Measure(archive_, 3));
  ASSERT_EQ(third.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(third[i].size(), all[3 * i].size());
    for (size_t j = 0; j < third[i].size(); ++j) EXPECT_EQ(third[i][j].kl, all[3 * i][j].kl);
  }
  EXPECT_EQ(verify::ValueOf(meter_.Measure(archive_, 100)).size(), 1U);
}

}  // namespace
}  // namespace needle::calibrate
