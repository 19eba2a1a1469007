#include "converter/report/collect.h"

#include <fstream>
#include <numeric>
#include <string>

#include "base/json.h"
#include "converter/report/report_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/fixture.h"

namespace needle::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using verify::ValueOf;

constexpr size_t kExamples = 3;
constexpr size_t kRecordedNewTokens = 72;

ReportInputs Fixture(const std::string& archive) {
  ReportInputs inputs;
  inputs.archive = ValueOf(engine::ArchiveWeights::Open(archive));
  inputs.against = verify::MakePlan("fixture/checkpoint.safetensors");
  return inputs;
}

// The fixture's archive against its checkpoint over a few held-out examples, measured once.
class CollectTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ReportInputs inputs = Fixture(tests::Testdata("fixture/cq2.cact"));
    inputs.data = "held.jsonl";
    inputs.examples =
        ValueOf(verify::ReadExamples(tests::Testdata("fixture/held.jsonl"), kExamples));
    data_ = std::make_unique<ReportData>(ValueOf(CollectReport(
        inputs, {.max_new_tokens = kRecordedNewTokens, .threads = 2, .progress = {}})));
  }
  static void TearDownTestSuite() { data_.reset(); }

  static std::unique_ptr<ReportData> data_;
};
std::unique_ptr<ReportData> CollectTest::data_;

TEST_F(CollectTest, SizesAddUpToTheFile) {
  uint64_t bytes = 0;
  for (const SizeRow& row : data_->sizes) bytes += row.bytes;
  EXPECT_EQ(bytes, tests::ReadFile(tests::Testdata("fixture/cq2.cact")).size());
  EXPECT_EQ(data_->summary.file_bytes, bytes);
}

TEST_F(CollectTest, SumsUpTheModel) {
  EXPECT_EQ(data_->summary.generation, "Needle 3");
  EXPECT_EQ(data_->summary.layers, 6U);
  EXPECT_EQ(data_->summary.bit_map, quant::kShippedScheme);
  EXPECT_EQ(data_->summary.tokenizer_pieces, 640U);
}

TEST_F(CollectTest, HasAPlaceForEveryTensor) {
  std::vector<std::string> places;
  uint64_t weights = 0;
  for (const PlaceRow& row : data_->places) {
    places.push_back(row.place);
    weights += row.weights;
  }
  EXPECT_THAT(places, ElementsAre("embedding", "layer 0", "layer 1", "layer 2", "layer 3",
                                  "layer 4", "layer 5", "mhc", "engram 0", "engram 1"));
  EXPECT_EQ(weights, data_->summary.cq_weights);
  EXPECT_EQ(data_->failures, 0U);
}

// The archive is the reference's, by plain rounding: but for permitted ties.
TEST_F(CollectTest, SeesPlainRounding) {
  for (const TensorRow& row : data_->tensors) {
    EXPECT_GT(row.plain_groups, 0.99) << row.name;
    EXPECT_GT(row.error, 0) << row.name;
    EXPECT_GE(row.worst_group, row.error) << row.name;
  }
}

TEST_F(CollectTest, RunsCheckpointAndArchiveInAllNumerics) {
  std::vector<std::string> labels;
  for (const RunRow& run : data_->runs) {
    labels.push_back(run.label);
    EXPECT_EQ(run.calls.examples, kExamples);
    EXPECT_EQ(run.divergence.has_value(), &run != &data_->runs[0]);
  }
  EXPECT_THAT(labels, ElementsAre("checkpoint (float)", "checkpoint (a8)", "archive (float)",
                                  "archive (a8)", "archive (kernel)"));
  EXPECT_EQ(data_->device_run, 4U);
}

TEST_F(CollectTest, PositionsAddUp) {
  for (size_t i = 1; i < data_->runs.size(); ++i) {
    const RunRow& run = data_->runs[i];
    uint64_t positions = 0;
    double kl = 0;
    size_t next = 0;
    for (const PositionRow& row : run.by_position) {
      EXPECT_EQ(row.first, next);
      next = row.last + 1;
      positions += row.divergence.positions;
      kl += row.divergence.kl_mean * static_cast<double>(row.divergence.positions);
    }
    EXPECT_EQ(positions, run.positions);
    // A sum of the same terms in another order.
    EXPECT_NEAR(kl / static_cast<double>(positions), run.divergence->kl_mean, 1e-12);
  }
}

// Exact calls of the first examples, from the reference's recorded answers: all three are right.
TEST_F(CollectTest, CountsExactCallsAsTheReferenceDid) {
  EXPECT_EQ(data_->runs[0].calls.exact, kExamples);
  EXPECT_EQ(data_->runs[0].calls.unparsable, 0U);
}

TEST_F(CollectTest, JsonHasTheSameNumbers) {
  const base::Json json = ReportJson(*data_);
  EXPECT_EQ(json["summary"]["bytes"], data_->summary.file_bytes);
  EXPECT_EQ(json["tensors"].size(), data_->tensors.size());
  EXPECT_EQ(json["tensors"][0]["error"], data_->tensors[0].error);
  EXPECT_EQ(json["behaviour"]["runs"][4]["divergence"]["kl_mean"],
            data_->runs[4].divergence->kl_mean);
  EXPECT_EQ(json["behaviour"]["runs"][4]["by_position"].size(), data_->runs[4].by_position.size());
  EXPECT_EQ(json["verification"]["failures"], 0);
}

TEST(CollectWithoutTest, CheckpointThereAreNoErrors) {
  ReportInputs inputs = Fixture(tests::Testdata("golden/n2-small/cq2.cact"));
  inputs.against = nullptr;
  const ReportData data = ValueOf(CollectReport(inputs, {.progress = {}}));
  EXPECT_FALSE(data.has_errors());
  EXPECT_EQ(data.summary.generation, "Needle 2");
  const base::Json json = ReportJson(data);
  EXPECT_FALSE(json.contains("places"));
  EXPECT_FALSE(json.contains("behaviour"));
  EXPECT_FALSE(json["tensors"][0].contains("error"));
}

TEST(CollectWithoutTest, TokenizerExamplesAreRefused) {
  ReportInputs inputs = Fixture(tests::Testdata("golden/n3-pad/cq2.cact"));
  inputs.against = nullptr;
  inputs.examples = ValueOf(verify::ReadExamples(tests::Testdata("fixture/held.jsonl"), 1));
  EXPECT_THAT(CollectReport(inputs, {.progress = {}}),
              tests::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no tokenizer")));
}

// Two norms of the embedding swapped: plain rounding no more.
TEST(CollectDamageTest, TellsOfFaults) {
  std::string bytes = tests::ReadFile(tests::Testdata("fixture/cq2.cact"));
  const format::Archive good = ValueOf(format::Archive::Open(tests::Testdata("fixture/cq2.cact")));
  const auto norms = static_cast<size_t>(good.Cq(0).norms.data() - good.bytes().data());
  std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(norms),
                   bytes.begin() + static_cast<std::ptrdiff_t>(norms + 2),
                   bytes.begin() + static_cast<std::ptrdiff_t>(norms + 200));
  const tests::TempFolder folder;
  std::ofstream(folder.File("bad.cact"), std::ios::binary) << bytes;
  const ReportData data =
      ValueOf(CollectReport(Fixture(folder.File("bad.cact")), {.progress = {}}));
  EXPECT_GT(data.failures, 0U);
  ASSERT_FALSE(data.failure_texts.empty());
  EXPECT_THAT(data.failure_texts[0], HasSubstr("embedding"));
}

}  // namespace
}  // namespace needle::report
