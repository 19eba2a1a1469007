// Field case F06: calibration statistics that break factorisations elsewhere.
#include <cmath>

#include "converter/calibrate/calibrate.h"
#include "converter/calibrate/matrix_fit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quant/code_table.h"
#include "tests/calibrate/calibration_fixture.h"
#include "tests/calibrate/random_values.h"

namespace needle::calibrate {
namespace {

using testing::Contains;
using testing::HasSubstr;
using tests::kScheme;
using tests::SmallPlan;
using tests::Testdata;

constexpr char kNormLeaf[] = "stack/layers/block/ZCRMSNorm_0/scale";

class DegenerateTest : public testing::Test {
 protected:
  // Finishes, measures are numbers, and no tensor is worse than plain rounding by the tool's own
  // measure.
  CalibrationReport Calibrated(const std::shared_ptr<const converter::TensorPlan>& plan,
                               const std::string& data) {
    CalibrateOptions options;
    options.data = data;
    options.threads = 2;
    const auto calibration = Calibrate(plan, options);
    EXPECT_TRUE(calibration.ok()) << calibration.status();
    EXPECT_FALSE(tests::BuildBytes(*plan, *calibration, folder_).empty());
    for (const TensorCalibration& tensor : calibration->report.tensors) {
      for (const auto& pair : {tensor.calibration, tensor.guard}) {
        if (!pair || !tensor.fallback.empty()) continue;
        EXPECT_TRUE(std::isfinite(pair->plain)) << tensor.name;
        EXPECT_LE(pair->chosen, pair->plain) << tensor.name;
      }
    }
    return calibration->report;
  }
  std::string Text(const std::string& text) {
    tests::WriteFile(folder_.File("text.txt"), text);
    return folder_.File("text.txt");
  }
  // The small model with each attention input's gain as `gain` says.
  std::shared_ptr<const converter::TensorPlan> WithGains(
      const std::function<void(std::vector<float>&)>& change) {
    const std::string changed = folder_.File("changed.safetensors");
    tests::ChangeLeaf(Testdata("golden/n3-small/checkpoint.safetensors"), changed, kNormLeaf,
                      change);
    return SmallPlan(kScheme, changed);
  }

  tests::TempFolder folder_;
};

TEST_F(DegenerateTest, DeadInputsAreReported) {
  const auto plan = WithGains([](std::vector<float>& scale) {
    const size_t d = 256;
    for (size_t layer = 0; layer < scale.size() / d; ++layer) {
      for (const size_t channel : {3U, 100U, 255U}) scale[layer * d + channel] = -1;
    }
  });
  const CalibrationReport report = Calibrated(plan, tests::FirstExamples(folder_, 9));
  EXPECT_THAT(report.warnings,
              Contains("dead-inputs: attention inputs: up to 3 channels are always zero (layers "
                       "0, 1, 2, 3)"));
}

TEST_F(DegenerateTest, ThreeTokens) {
  const CalibrationReport report = Calibrated(SmallPlan(kScheme), Text("on"));
  EXPECT_LE(report.tokens, 3U);
  EXPECT_THAT(report.warnings, Contains(HasSubstr("few-tokens")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("no-guard")));
}

TEST_F(DegenerateTest, OneTokenFiveThousandTimes) {
  const CalibrationReport report = Calibrated(SmallPlan(kScheme), Text(std::string(5000, 'a')));
  EXPECT_GT(report.tokens, 100U);
}

TEST_F(DegenerateTest, LargeActivations) {
  const auto plan = WithGains([](std::vector<float>& scale) {
    for (float& gain : scale) gain = (1 + gain) * 1e4F - 1;
  });
  Calibrated(plan, tests::FirstExamples(folder_, 9));
}

// In f16 the gain becomes 0: the quantised model's attention sees nothing.
TEST_F(DegenerateTest, VanishingActivationsFallBackByName) {
  const auto plan = WithGains([](std::vector<float>& scale) {
    for (float& gain : scale) gain = -1 + 1e-6F;
  });
  const CalibrationReport report = Calibrated(plan, tests::FirstExamples(folder_, 9));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("plain-kept: layer00.q_proj")));
}

TEST(InputMetricTest, DampingRaisesItselfAndSaysSo) {
  base::ThreadPool pool(1);
  quant::DenseMatrix moments(128, 128);
  // Not positive definite by far more than one percent of its mean diagonal.
  for (size_t i = 0; i < 128; ++i) moments.at(i, i) = i == 5 ? -3 : 1;
  const auto input = MakeInputMetric(moments, nullptr, 0.01, pool);
  ASSERT_TRUE(input.has_value());
  EXPECT_EQ(input->damping_raised, 3U);  // 0.1 and 1 are not enough for -3
  EXPECT_NEAR(input->damping, 10, 1e-9);
  EXPECT_EQ(input->dead_inputs, 1U);
}

TEST(InputMetricTest, NothingToFitTo) {
  base::ThreadPool pool(1);
  quant::DenseMatrix moments(128, 128);
  EXPECT_FALSE(MakeInputMetric(moments, nullptr, 0.01, pool).has_value());
  moments.at(0, 0) = 1;
  moments.at(3, 4) = std::nan("");
  EXPECT_FALSE(MakeInputMetric(moments, nullptr, 0.01, pool).has_value());
}

// Weights that plain rounding reproduces, as a quantisation-aware checkpoint's may be: 49 outer and
// 79 inner entries make a direction of length 1 (to 3e-4), so that the norm survives as well.
TEST(FitRowsTest, ExactlyRepresentableRowsStayPlain) {
  base::ThreadPool pool(1);
  const quant::Codebook codebook = quant::Codebook::Standard(format::Width::kCq2);
  quant::RowChoices plain(5, 256);
  for (size_t i = 0; i < plain.codes.size(); ++i) {
    const bool outer = i * 37 % 128 < 49;
    const bool positive = i * 53 % 7 < 3;
    plain.codes[i] = static_cast<uint8_t>(outer ? (positive ? 3 : 0) : (positive ? 2 : 1));
  }
  for (uint16_t& norm : plain.norms) norm = quant::NormBits(0.75);
  const auto input = MakeInputMetric(tests::RandomMoments(256, 4), nullptr, 0.01, pool);
  ASSERT_TRUE(input.has_value());
  const RowsFit fit = FitRows(RowValues(plain, codebook), *input, codebook, true, plain, pool);
  EXPECT_EQ(fit.plain_rows, 5U);
  EXPECT_EQ(fit.choices.codes, plain.codes);
  EXPECT_EQ(fit.choices.norms, plain.norms);
  EXPECT_EQ(fit.objective, 0);
}

}  // namespace
}  // namespace needle::calibrate
