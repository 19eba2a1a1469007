// Field case F14, as far as behaviour goes: NaN, another depth and nothing to compare never pass.
#include "converter/verify/verify_forward.h"

#include "base/endian.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/fixture.h"

namespace needle::verify {
namespace {

using engine::Numerics;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Sequences = std::vector<std::vector<uint32_t>>;

size_t TotalLength(const Sequences& sequences) {
  size_t total = 0;
  for (const auto& sequence : sequences) total += sequence.size();
  return total;
}

// Another source with the gain before the output multiplied: the logits overflow.
class LoudWeights : public PlanWeights {
 public:
  using PlanWeights::PlanWeights;
  absl::StatusOr<std::vector<float>> Floats(format::TensorId id) const override {
    std::vector<float> values = ValueOf(PlanWeights::Floats(id));
    if (id.role == format::TensorRole::kFinalNorm) {
      for (float& value : values) value = 3e38F;
    }
    return values;
  }
};

class VerifyForwardTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    plan_ = MakePlan("fixture/checkpoint.safetensors");
    floats_ = std::make_unique<engine::Model>(LoadFloats(plan_));
    const engine::Tokenizer tokenizer = ValueOf(engine::Tokenizer::FromSource(floats_->source()));
    sequences_ = BuiltInSequences(&tokenizer, plan_->geometry());
  }
  static void TearDownTestSuite() {
    floats_.reset();
    plan_.reset();
  }

  static ForwardReport Verify(const engine::Model& model, const ForwardOptions& options = {}) {
    return ValueOf(VerifyForward(*floats_, model, sequences_, options));
  }

  static inline std::shared_ptr<const converter::TensorPlan> plan_;
  static inline std::unique_ptr<engine::Model> floats_;
  static inline Sequences sequences_;
};

TEST_F(VerifyForwardTest, AModelEqualsItself) {
  const ForwardReport report = Verify(*floats_);
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.divergence.kl_max, 0);
  EXPECT_EQ(report.divergence.top1, 1);
  EXPECT_EQ(report.reference_perplexity, report.archive_perplexity);
}

TEST_F(VerifyForwardTest, CountsWhatItCompared) {
  const ForwardReport report = Verify(*floats_);
  EXPECT_EQ(report.sequences, 2);
  EXPECT_EQ(report.divergence.positions, TotalLength(sequences_));
  EXPECT_EQ(report.predicted, TotalLength(sequences_) - sequences_.size());
  EXPECT_THAT(report.reference, HasSubstr("checkpoint.safetensors (float)"));
}

// Rounding to f32 moves logits by some 1e-4 at most; KL is about half the square of that.
TEST_F(VerifyForwardTest, RebalancedWeightsAreTheSameFunction) {
  const tests::TempFolder folder;
  const auto checkpoint =
      ValueOf(converter::Checkpoint::Open(tests::WriteOutliersCheckpoint(folder)));
  converter::PlanOptions options;
  const auto model = [&](bool rebalance) {
    options.rebalance = rebalance;
    return LoadFloats(std::make_shared<const converter::TensorPlan>(
        ValueOf(converter::TensorPlan::Make(checkpoint, options))));
  };
  const auto report = ValueOf(VerifyForward(model(false), model(true), sequences_, {}));
  EXPECT_GT(report.divergence.kl_max, 0);
  EXPECT_LT(report.divergence.kl_max, 1e-7);
  EXPECT_EQ(report.divergence.top1, 1);
}

// The fixture's archive is a good one: figures.json has a mean KL of 0.0035 over answers. Here are
// prompts too, which the model was not trained to predict.
TEST_F(VerifyForwardTest, AGoodArchivePassesInEveryNumerics) {
  for (const Numerics numerics : {Numerics::kFloat, Numerics::kA8, Numerics::kKernel}) {
    const ForwardReport report = Verify(LoadArchive(tests::Testdata("fixture/cq2.cact"), numerics));
    EXPECT_THAT(report.failures, IsEmpty());
    EXPECT_EQ(report.archive_numerics, numerics);
    EXPECT_GT(report.divergence.kl_mean, 0);
    EXPECT_LE(report.divergence.kl_median, report.divergence.kl_p95);
    EXPECT_LE(report.divergence.kl_p95, report.divergence.kl_p99);
    EXPECT_LE(report.divergence.kl_p99, report.divergence.kl_max);
    EXPECT_GT(report.divergence.top1, 0.8);
  }
}

// Plain 2-bit rounding destroys this one (figures.json: a mean KL of 0.69 over answers).
TEST_F(VerifyForwardTest, ADestroyedModelFails) {
  const tests::TempFolder folder;
  const auto plan = MakeOutliersPlan("default=1");
  converter::BuildOptions options;
  options.threads = 1;
  ValueOf(converter::Build(*plan, folder.File("binary.cact"), options));
  const ForwardReport report = Verify(LoadArchive(folder.File("binary.cact"), Numerics::kKernel));
  EXPECT_THAT(report.failures, ElementsAre(HasSubstr("mean KL")));
}

TEST_F(VerifyForwardTest, EachLimitCanFail) {
  const engine::Model archive = LoadArchive(tests::Testdata("fixture/cq2.cact"), Numerics::kFloat);
  ForwardOptions options;
  options.limits = {.max_mean_kl = 1e-6, .max_kl = 1e-6, .min_top1 = 1.1};
  EXPECT_THAT(Verify(archive, options).failures,
              ElementsAre(HasSubstr("mean KL"), HasSubstr("largest KL"), HasSubstr("top-1")));
}

TEST_F(VerifyForwardTest, LogitsThatAreNotFiniteNeverPass) {
  ForwardOptions options;
  options.limits = {.max_mean_kl = 1e300, .max_kl = 1e300, .min_top1 = 0};
  const engine::Model loud = LoadModel(std::make_shared<LoudWeights>(plan_), Numerics::kFloat);
  const ForwardReport report = Verify(loud, options);
  EXPECT_FALSE(report.passed());
  EXPECT_GT(report.divergence.not_finite, 0);
  EXPECT_THAT(report.failures, ElementsAre(HasSubstr("not finite")));
}

TEST_F(VerifyForwardTest, AnotherDepthNeverPasses) {
  const engine::Model shallow =
      LoadFloats(MakePlan("fixture/checkpoint.safetensors", quant::kShippedScheme, 4));
  const ForwardReport report = Verify(shallow);
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(report.failures, Contains("num_layers: 4, want 6"));
  EXPECT_EQ(report.divergence.positions, 0);
}

TEST_F(VerifyForwardTest, NothingToCompareNeverPasses) {
  const ForwardReport report = ValueOf(VerifyForward(*floats_, *floats_, {}, {}));
  EXPECT_THAT(report.failures, ElementsAre(HasSubstr("nothing to compare")));
}

TEST_F(VerifyForwardTest, ABadTokenIsAnErrorThatNamesTheSequence) {
  const Sequences bad = {{2, 3}, {2, 640}};
  EXPECT_THAT(VerifyForward(*floats_, *floats_, bad, {}),
              tests::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sequence 1")));
}

TEST_F(VerifyForwardTest, ThreadsDoNotShowAndProgressCanStop) {
  const engine::Model archive = LoadArchive(tests::Testdata("fixture/cq2.cact"), Numerics::kKernel);
  ForwardOptions options;
  const ForwardReport one = Verify(archive, options);
  size_t calls = 0;
  options.threads = 2;
  options.progress = [&calls](size_t done, size_t total) {
    EXPECT_EQ(done, ++calls);
    EXPECT_EQ(total, 2);
    return true;
  };
  const ForwardReport two = Verify(archive, options);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(one.divergence.kl_mean, two.divergence.kl_mean);
  EXPECT_EQ(one.archive_perplexity, two.archive_perplexity);
  options.progress = [](size_t, size_t) { return false; };
  EXPECT_EQ(VerifyForward(*floats_, archive, sequences_, options).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(BuiltInSequencesTest, IdsWithoutATokenizerAreInTheVocabulary) {
  const auto plan = MakePlan("golden/n3-pad/checkpoint.safetensors");
  const Sequences sequences = BuiltInSequences(nullptr, plan->geometry());
  ASSERT_THAT(sequences, SizeIs(1));
  EXPECT_EQ(sequences, BuiltInSequences(nullptr, plan->geometry()));
  for (const uint32_t id : sequences[0]) EXPECT_LT(id, plan->geometry().LogitRows());
  format::Geometry tiny = plan->geometry();
  tiny.max_seq_len = 5;
  EXPECT_THAT(BuiltInSequences(nullptr, tiny)[0], SizeIs(5));
}

// Needle 2, whose window masks attention.
TEST(VerifyForwardNeedle2Test, AnotherWindowNeverPasses) {
  const auto plan = MakePlan("golden/n2-small/checkpoint.safetensors");
  const engine::Model floats = LoadFloats(plan);
  const Sequences sequences = BuiltInSequences(nullptr, plan->geometry());
  const ForwardReport good = ValueOf(VerifyForward(
      floats, LoadArchive(tests::Testdata("golden/n2-small/cq3.cact"), Numerics::kFloat), sequences,
      {}));
  EXPECT_EQ(good.divergence.positions, TotalLength(sequences));
  std::vector<uint8_t> bytes = tests::ReadBytes(tests::Testdata("golden/n2-small/cq3.cact"));
  base::StoreLe<uint32_t>(&bytes[12], 5);  // header field 3, kv_window
  const tests::TempFolder folder;
  tests::WriteBytes(folder.File("window.cact"), bytes);
  const ForwardReport report = ValueOf(VerifyForward(
      floats, LoadArchive(folder.File("window.cact"), Numerics::kFloat), sequences, {}));
  EXPECT_THAT(report.failures, ElementsAre("kv_window: 5, want 12"));
}

}  // namespace
}  // namespace needle::verify
