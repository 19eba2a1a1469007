#include "converter/synth.h"

#include <map>
#include <string>

#include "converter/build.h"
#include "converter/checkpoint.h"
#include "converter/tensor_plan.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using format::DType;
using format::Generation;
using format::Width;
using tests::ReadFile;
using tests::TempFolder;
using tests::Testdata;

base::Json SmallConfig() {
  base::Json config = ShippedConfig(Generation::kNeedle3);
  config["num_layers"] = 2;
  config["global_layers"] = {1};
  config["engram_layers"] = {1};
  config["engram_slots"] = 64;
  config["vocab_size"] = config["out_vocab"] = 640;
  return config;
}

TEST(SynthTest, SameSeedGivesSameBytesWithAnyNumberOfThreads) {
  const TempFolder folder;
  for (const size_t threads : {1U, 2U, 7U}) {
    ASSERT_OK(WriteSyntheticCheckpoint({.config = SmallConfig(), .seed = 5, .threads = threads},
                                       folder.File(std::to_string(threads) + ".safetensors")));
  }
  ASSERT_OK(WriteSyntheticCheckpoint({.config = SmallConfig(), .seed = 6, .threads = 1},
                                     folder.File("other.safetensors")));
  const std::string one = ReadFile(folder.File("1.safetensors"));
  EXPECT_TRUE(one == ReadFile(folder.File("2.safetensors")));
  EXPECT_TRUE(one == ReadFile(folder.File("7.safetensors")));
  EXPECT_FALSE(one == ReadFile(folder.File("other.safetensors")));
}

// Bytes and number of an archive's tensors, by kind of record.
struct Kind {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

std::map<std::string, Kind> KindsOf(const TensorPlan& plan) {
  std::map<std::string, Kind> kinds;
  for (size_t i = 0; i < plan.schema().tensors().size(); ++i) {
    const bool is_cq = plan.schema().tensors()[i].dtype == DType::kCq;
    Kind& kind = kinds[std::string(is_cq ? format::WidthName(plan.widths()[i])
                                         : format::DTypeName(plan.schema().tensors()[i].dtype))];
    ++kind.tensors;
    kind.bytes += plan.layout().records[i].num_bytes;
  }
  return kinds;
}

absl::StatusOr<TensorPlan> PlanShipped(Generation generation, const TempFolder& folder) {
  const std::string path = folder.File("big.safetensors");
  const auto report = WriteSyntheticCheckpoint({.config = ShippedConfig(generation)}, path);
  if (!report.ok()) return report.status();
  const auto checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) return checkpoint.status();
  PlanOptions options;
  options.bit_map = *quant::BitMap::Parse(quant::kShippedScheme);
  options.tokenizer = Testdata("fixture/tokenizer.model");
  return TensorPlan::Make(*checkpoint, options);
}

// The figures are those of the specification (header table) and of the shipped archive.
TEST(SynthTest, ShippedNeedle3HasTheNumbersOfTheField) {
  const TempFolder folder;
  const auto plan = PlanShipped(Generation::kNeedle3, folder);
  ASSERT_OK(plan);
  EXPECT_EQ(plan->schema().tensors().size(), 581U);
  auto kinds = KindsOf(*plan);
  EXPECT_EQ(kinds["CQ2"].tensors, 115U);
  EXPECT_NEAR(static_cast<double>(kinds["CQ2"].bytes) / 1e6, 29.90, 0.005);
  EXPECT_EQ(kinds["CQ4"].tensors, 7U);
  EXPECT_EQ(kinds["FP16"].tensors, 456U);
  EXPECT_NEAR(static_cast<double>(kinds["FP16"].bytes) / 1e6, 1.25, 0.005);
  EXPECT_EQ(kinds["FP32"].tensors, 2U);
  EXPECT_EQ(kinds["RAW"].tensors, 1U);
  EXPECT_EQ(plan->geometry().kv_window, 256U);
  EXPECT_TRUE(plan->warnings().empty());
}

TEST(SynthTest, ShippedNeedle2HasTheNumbersOfTheField) {
  const TempFolder folder;
  const auto plan = PlanShipped(Generation::kNeedle2, folder);
  ASSERT_OK(plan);
  auto kinds = KindsOf(*plan);
  EXPECT_EQ(kinds["CQ2"].tensors, 141U);
  EXPECT_EQ(kinds["CQ4"].tensors, 4U);
  EXPECT_EQ(kinds["FP16"].tensors, 259U);
  EXPECT_NEAR(static_cast<double>(plan->layout().file_bytes) / 1e6, 13.7, 0.1);
}

// Gaussian weights cost what the theory says: the values are of use for judging an encoder.
TEST(SynthTest, MatricesQuantiseAsGaussianOnes) {
  const TempFolder folder;
  ASSERT_OK(WriteSyntheticCheckpoint({.config = SmallConfig()}, folder.File("s.safetensors")));
  const auto checkpoint = Checkpoint::Open(folder.File("s.safetensors"));
  ASSERT_OK(checkpoint);
  const auto plan = TensorPlan::Make(*checkpoint, {});
  ASSERT_OK(plan);
  const auto report = Build(*plan, folder.File("s.cact"), {});
  ASSERT_OK(report);
  const TensorReport& q = report->tensors[*plan->schema().FindName("layer00.q_proj")];
  // 442,368 weights: the error of the mean is below 1 %, and the distribution is not quite
  // Gaussian.
  EXPECT_NEAR(q.stats.RelativeError(), quant::TheoreticalDistortion(Width::kCq2),
              0.02 * quant::TheoreticalDistortion(Width::kCq2));
}

TEST(SynthTest, RefusesAConfigThatIsNone) {
  const TempFolder folder;
  EXPECT_THAT(
      WriteSyntheticCheckpoint({.config = {{"num_heads", 0}}}, folder.File("s.safetensors")),
      tests::StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("num_heads")));
  EXPECT_TRUE(folder.Names().empty());
}

}  // namespace
}  // namespace needle::converter
