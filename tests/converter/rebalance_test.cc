// Rebalanced attention inputs: the same function in other tensors.
#include "converter/rebalance.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "base/half.h"
#include "base/status_macros.h"
#include "converter/checkpoint.h"
#include "converter/tensor_plan.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/outliers.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using format::TensorRole;

constexpr TensorRole kMatrices[] = {TensorRole::kQProj, TensorRole::kKProj, TensorRole::kVProj,
                                    TensorRole::kGateProj};

TensorPlan PlanOf(const std::string& checkpoint, bool rebalance, uint32_t layers = 0) {
  PlanOptions options;
  options.rebalance = rebalance;
  options.layers = layers;
  return *TensorPlan::Make(*Checkpoint::Open(checkpoint), options);
}

std::vector<float> Values(const TensorSource& source, const format::Schema& schema,
                          format::TensorId id) {
  return *ReadTensor(source, schema, *schema.Find(id));
}

// Sizes of a layer's channels and of their columns.
struct Sizes {
  std::vector<double> channels, columns;
};

Sizes SizesOf(const TensorSource& source, const format::Schema& schema, uint32_t layer) {
  Sizes sizes;
  for (const float gain : Values(source, schema, {TensorRole::kNormIn, layer})) {
    sizes.channels.push_back(std::abs(1 + static_cast<double>(gain)));
  }
  sizes.columns.resize(sizes.channels.size());
  for (const TensorRole role : kMatrices) {
    const std::vector<float> weights = Values(source, schema, {role, layer});
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto weight = static_cast<double>(weights[i]);
      sizes.columns[i % sizes.columns.size()] += weight * weight;
    }
  }
  for (double& column : sizes.columns) column = std::sqrt(column);
  return sizes;
}

class RebalanceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<tests::TempFolder>();
    path_ = tests::WriteOutliersCheckpoint(*folder_);
    plans_ = std::make_unique<Plans>(PlanOf(path_, false), PlanOf(path_, true));
  }
  static void TearDownTestSuite() {
    plans_.reset();
    folder_.reset();
  }

  using Plans = std::pair<TensorPlan, TensorPlan>;  // as it is, rebalanced
  static inline std::unique_ptr<tests::TempFolder> folder_;
  static inline std::string path_;
  static inline std::unique_ptr<Plans> plans_;
  const TensorPlan& before_ = plans_->first;
  const TensorPlan& after_ = plans_->second;
  const format::Schema& schema_ = before_.schema();
};

// (1 + g) W of every weight: two roundings to f32 at most, 2^-24 each, and f64's, which is far
// less.
TEST_F(RebalanceTest, ProductsOfGainAndWeightStay) {
  for (uint32_t layer = 0; layer < before_.geometry().num_layers; ++layer) {
    const auto old_gain = Values(before_, schema_, {TensorRole::kNormIn, layer});
    const auto new_gain = Values(after_, schema_, {TensorRole::kNormIn, layer});
    for (const TensorRole role : kMatrices) {
      const auto old_weights = Values(before_, schema_, {role, layer});
      const auto new_weights = Values(after_, schema_, {role, layer});
      for (size_t i = 0; i < old_weights.size(); ++i) {
        const size_t col = i % old_gain.size();
        const double want =
            (1 + static_cast<double>(old_gain[col])) * static_cast<double>(old_weights[i]);
        const double got =
            (1 + static_cast<double>(new_gain[col])) * static_cast<double>(new_weights[i]);
        ASSERT_NEAR(got, want, std::abs(want) * 0x1p-23) << layer << " " << i;
      }
    }
  }
}

TEST_F(RebalanceTest, GainsAreWhatTheArchiveHolds) {
  for (const InputBalance& balance : after_.balances()) {
    for (const float gain : balance.gain) {
      EXPECT_EQ(base::F32FromF16(base::F16FromF32(gain)), gain);
    }
  }
}

// Cauchy-Schwarz: the product of both sums of squares is at least the square of the sum of the
// products, which rebalancing leaves, and equal to it where both are in proportion. f16 rounds
// gains of up to 4 to 2^-10 and keeps channels of 0.05 and more within 2 %; the excess is at most
// about its square.
TEST_F(RebalanceTest, ReachesTheBoundOfCauchySchwarz) {
  for (uint32_t layer = 0; layer < before_.geometry().num_layers; ++layer) {
    const auto excess = [layer, this](const TensorPlan& plan) {
      const Sizes sizes = SizesOf(plan, schema_, layer);
      double xx = 0, ww = 0, xw = 0;
      for (size_t i = 0; i < sizes.channels.size(); ++i) {
        xx += sizes.channels[i] * sizes.channels[i];
        ww += sizes.columns[i] * sizes.columns[i];
        xw += sizes.channels[i] * sizes.columns[i];
      }
      return xx * ww / (xw * xw) - 1;
    };
    EXPECT_GT(excess(before_), 1);
    EXPECT_LT(excess(after_), 0.0004);
    EXPECT_GE(excess(after_), -1e-9);
  }
}

TEST_F(RebalanceTest, OtherTensorsStay) {
  for (size_t i = 0; i < schema_.tensors().size(); ++i) {
    const format::TensorSpec& spec = schema_.tensors()[i];
    if (spec.dtype == format::DType::kRaw || spec.id.role == TensorRole::kNormIn) continue;
    if (std::ranges::find(kMatrices, spec.id.role) != std::end(kMatrices)) continue;
    EXPECT_EQ(*ReadTensor(before_, schema_, i), *ReadTensor(after_, schema_, i)) << spec.name;
  }
}

// So a slice of a rebalanced archive is what a build of that depth is.
TEST_F(RebalanceTest, ALayerIsTheSameAtEveryDepth) {
  const TensorPlan two = PlanOf(path_, true, 2);  // blocks 0 and 5
  for (const TensorRole role : {TensorRole::kNormIn, TensorRole::kQProj}) {
    EXPECT_EQ(Values(two, two.schema(), {role, 1}), Values(after_, schema_, {role, 5}));
  }
}

TEST_F(RebalanceTest, ScalesAreReported) {
  const auto [least, largest] = ScaleRange(after_.balances());
  EXPECT_LT(least, 0.1);  // the outliers are 25 times as large as the others
  EXPECT_GT(largest, 1);
  EXPECT_EQ(ScaleRange({}), std::pair(1.0, 1.0));
  EXPECT_TRUE(before_.balances().empty());
}

// A plan with some values of block 0 replaced.
class Changed final : public TensorSource {
 public:
  explicit Changed(const TensorPlan& plan) : plan_(plan) {}
  absl::Status ReadRows(size_t position, uint64_t first, uint64_t count,
                        std::span<float> values) const override {
    const format::TensorSpec& spec = plan_.schema().tensors()[position];
    RETURN_IF_ERROR(plan_.ReadRows(position, first, count, values));
    if (spec.id.index != 0) return absl::OkStatus();
    if (spec.id.role == TensorRole::kNormIn) values[3] = -1;  // a channel that is always zero
    const bool is_matrix = std::ranges::find(kMatrices, spec.id.role) != std::end(kMatrices);
    for (size_t i = 0; is_matrix && i < values.size(); i += TensorCols(spec)) {
      values[i + 4] = 0;
      values[i + 5] = std::numeric_limits<float>::quiet_NaN();
    }
    return absl::OkStatus();
  }

 private:
  const TensorPlan& plan_;
};

TEST_F(RebalanceTest, ChannelsWithoutASizeStay) {
  const Changed changed(before_);
  const auto balances = BalanceInputs(changed, schema_);
  ASSERT_OK(balances);
  const auto gain = Values(changed, schema_, {TensorRole::kNormIn, 0});
  for (const size_t channel : {3U, 4U, 5U}) {
    EXPECT_EQ((*balances)[0].gain[channel], gain[channel]) << channel;
    EXPECT_EQ((*balances)[0].factors[channel], 1) << channel;
  }
  EXPECT_NE((*balances)[0].factors[6], 1);
}

}  // namespace
}  // namespace needle::converter
