// Field case F14: a verifier that cannot fail. Against the full-precision source.
#include "converter/verify/verify_tensors.h"

#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/damage.h"
#include "tests/verify/fixture.h"

namespace needle::verify {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::SizeIs;
using ::testing::StartsWith;

TensorsReport Verify(const format::Archive& archive, const converter::TensorPlan& plan,
                     const TensorsOptions& options = {}) {
  return ValueOf(VerifyAgainstPlan(archive, plan, options));
}

const TensorCheck& CheckOf(const TensorsReport& report, const std::string& tensor) {
  for (const TensorCheck& check : report.tensors) {
    if (check.name == tensor) return check;
  }
  throw std::runtime_error("not compared: " + tensor);
}

// The trained fixture and the reference's archive of it.
class VerifyTensorsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { plan_ = MakePlan("fixture/checkpoint.safetensors"); }
  static void TearDownTestSuite() { plan_.reset(); }

  TensorsReport VerifyDamage(const TensorsOptions& options = {}) const {
    return Verify(ValueOf(damage_.Reopen()), *plan_, options);
  }

  static inline std::shared_ptr<const converter::TensorPlan> plan_;
  static constexpr const char* kLargest = "embedding";
  Damage damage_{tests::Testdata("fixture/cq2.cact")};
};

TEST_F(VerifyTensorsTest, AcceptsTheReferencesArchive) {
  const TensorsReport report = Verify(damage_.good(), *plan_);
  EXPECT_THAT(AllFailures(report), IsEmpty());
  EXPECT_TRUE(report.passed());
  // All but the tokenizer.
  EXPECT_THAT(report.tensors, SizeIs(damage_.good().records().size() - 1));
  uint64_t values = 0;
  for (const TensorCheck& check : report.tensors) {
    values += check.values;
    EXPECT_THAT(check.match, testing::AnyOf(Match::kIdentical, Match::kTies)) << check.name;
    EXPECT_GT(check.groups, 0) << check.name;
  }
  EXPECT_EQ(report.values, values);
}

TEST_F(VerifyTensorsTest, NoTensorIsLargerThanTheOneThatIsDamaged) {
  const TensorsReport report = Verify(damage_.good(), *plan_);
  const uint64_t most = CheckOf(report, kLargest).values;
  for (const format::TensorSpec& spec : damage_.good().schema().tensors()) {
    EXPECT_LE(format::NumValues(spec.shape).value_or(0), most) << spec.name;
  }
}

// On weights that are near Gaussian the error is near theory: the fixture's matrices after the
// rotation. 10 % covers their tails; a group of 128 deviates by 1/8 and there are at least 64.
TEST_F(VerifyTensorsTest, ReportsTheErrorNextToTheWidthsTheory) {
  for (const TensorCheck& check : Verify(damage_.good(), *plan_).tensors) {
    if (!check.width) continue;
    EXPECT_NEAR(check.nmse, check.theory, 0.1 * check.theory) << check.name;
    EXPECT_GE(check.worst.nmse, check.nmse) << check.name;
  }
}

TEST_F(VerifyTensorsTest, SwappedNormsOfTwoRowsAreNamed) {
  damage_.SwapNormsOfRows(kLargest, 300, 500);
  const TensorsReport report = VerifyDamage();
  EXPECT_FALSE(report.passed());
  const TensorCheck& check = CheckOf(report, kLargest);
  EXPECT_EQ(check.match, Match::kDiffers);
  EXPECT_THAT(check.failures, ElementsAre(StartsWith("embedding: row 300, group 0: norm "),
                                          StartsWith("embedding: row 300, group 1: norm "),
                                          StartsWith("embedding: row 500, group 0: norm "),
                                          StartsWith("embedding: row 500, group 1: norm ")));
  EXPECT_EQ(report.num_failures(), 4);
}

TEST_F(VerifyTensorsTest, OneFlippedIndexBitInTheLargestTensorIsNamed) {
  damage_.FlipIndexBit(kLargest, 600, 19);  // the high bit of index 4
  const TensorsReport report = VerifyDamage();
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.num_failures(), 1);
  EXPECT_THAT(AllFailures(report),
              ElementsAre(StartsWith("embedding: row 600, group 0: 1 of 128 indices, the "
                                     "first at 4 of the group: level ")));
}

TEST_F(VerifyTensorsTest, ColumnMajorNormsAreNamed) {
  damage_.TransposeNorms("layer02.q_proj");
  const TensorsReport report = VerifyDamage();
  EXPECT_FALSE(report.passed());
  const TensorCheck& check = CheckOf(report, "layer02.q_proj");
  // The first and last norm stay where they are.
  EXPECT_GE(check.bad_groups + 8, check.groups);
  EXPECT_THAT(check.failures, Each(StartsWith("layer02.q_proj: row ")));
  EXPECT_THAT(check.failures, SizeIs(kListedFailures));
}

TEST_F(VerifyTensorsTest, ColumnMajorNormsOfAllTensorsAreNoOtherRounding) {
  for (const format::TensorSpec& spec : damage_.good().schema().tensors()) {
    if (spec.dtype == format::DType::kCq && damage_.View(spec.name).layout.groups > 1) {
      damage_.TransposeNorms(spec.name);
    }
  }
  const TensorsReport report = VerifyDamage();
  for (const TensorCheck& check : report.tensors) {
    if (!check.width || damage_.View(check.name).layout.groups == 1) continue;
    EXPECT_EQ(check.match, Match::kDiffers) << check.name;
  }
}

// The last bit moves a threshold: some weight of the 2 million lies between, or at least structure
// names it. Here the decoded values are off in every group.
TEST_F(VerifyTensorsTest, ANormOffByTwoStepsIsNamed) {
  damage_.SetNorm("embedding", 3, 1, static_cast<uint16_t>(damage_.Norm("embedding", 3, 1) + 2));
  EXPECT_THAT(AllFailures(VerifyDamage()),
              ElementsAre(StartsWith("embedding: row 3, group 1: norm ")));
}

TEST_F(VerifyTensorsTest, OneBitOfAnFp16TensorIsNamed) {
  damage_.bytes()[damage_.Offset("layer05.pre_hada") + 2 * 200] ^= 1;
  const TensorsReport report = VerifyDamage();
  EXPECT_EQ(report.num_failures(), 1);
  EXPECT_THAT(AllFailures(report),
              ElementsAre(StartsWith("layer05.pre_hada: row 0, group 1, column 200: ")));
}

TEST_F(VerifyTensorsTest, AnotherTokenizerIsNamed) {
  const uint64_t score_of_last_piece = damage_.bytes().size() - 12;
  damage_.bytes()[score_of_last_piece] ^= 1;
  const auto archive = damage_.Reopen();
  ASSERT_OK(archive);
  EXPECT_THAT(Verify(*archive, *plan_).failures, ElementsAre(StartsWith("tokenizer: ")));
}

TEST_F(VerifyTensorsTest, AnotherWindowIsNamed) {
  base::StoreLe<uint32_t>(&damage_.bytes()[12], 32);  // header field 3
  const TensorsReport report = VerifyDamage();
  EXPECT_THAT(report.failures, ElementsAre(StartsWith("kv_window: 32, want ")));
  EXPECT_THAT(report.tensors, SizeIs(Gt(0)));
}

TEST_F(VerifyTensorsTest, AnotherDepthIsNamedAndNothingIsCompared) {
  const auto shallow = MakePlan("fixture/checkpoint.safetensors", quant::kShippedScheme, 4);
  const TensorsReport report = Verify(damage_.good(), *shallow);
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(report.failures, Contains("num_layers: 6, want 4"));
  EXPECT_THAT(report.tensors, IsEmpty());
}

TEST_F(VerifyTensorsTest, AnotherModelIsNamed) {
  const TensorsReport report = Verify(damage_.good(), *MakeOutliersPlan());
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(CheckOf(report, "layer00.norm_in").match, Match::kDiffers);
  EXPECT_THAT(CheckOf(report, "layer00.norm_in").failures,
              Each(StartsWith("layer00.norm_in: row ")));
}

TEST_F(VerifyTensorsTest, WidthsAreComparedWhenAsked) {
  const auto other =
      MakePlan("fixture/checkpoint.safetensors", "embedding=4,mhc=4,attn.k_proj=3,default=2");
  EXPECT_TRUE(Verify(damage_.good(), *other).passed());
  TensorsOptions options;
  options.check_widths = true;
  EXPECT_TRUE(Verify(damage_.good(), *plan_, options).passed());
  const TensorsReport report = Verify(damage_.good(), *other, options);
  EXPECT_THAT(report.failures, SizeIs(6));
  EXPECT_THAT(report.failures, Contains("layer00.k_proj: CQ2, want CQ3"));
}

// The fast way, for builds: all the same, apart from worst groups where nothing differs.
TEST_F(VerifyTensorsTest, FindsTheSameDamageWithoutLocatingWorstGroups) {
  damage_.TransposeNorms("layer02.q_proj");
  damage_.FlipIndexBit(kLargest, 600, 19);
  TensorsOptions options;
  const TensorsReport slow = VerifyDamage(options);
  options.locate_worst = false;
  const TensorsReport fast = VerifyDamage(options);
  EXPECT_EQ(AllFailures(fast), AllFailures(slow));
  ASSERT_EQ(fast.tensors.size(), slow.tensors.size());
  for (size_t i = 0; i < fast.tensors.size(); ++i) {
    EXPECT_EQ(fast.tensors[i].match, slow.tensors[i].match);
    EXPECT_EQ(fast.tensors[i].groups, slow.tensors[i].groups);
    // The same sums, split otherwise: f64 rounding.
    EXPECT_NEAR(fast.tensors[i].nmse, slow.tensors[i].nmse, 1e-12);
  }
  EXPECT_THAT(Verify(damage_.good(), *plan_, options).num_failures(), 0);
}

TEST_F(VerifyTensorsTest, ThreadsDoNotShow) {
  damage_.TransposeNorms("layer02.q_proj");
  damage_.FlipIndexBit(kLargest, 600, 19);
  TensorsOptions options;
  options.threads = 1;
  const TensorsReport one = VerifyDamage(options);
  options.threads = 7;
  const TensorsReport seven = VerifyDamage(options);
  ASSERT_EQ(one.tensors.size(), seven.tensors.size());
  EXPECT_EQ(AllFailures(one), AllFailures(seven));
  for (size_t i = 0; i < one.tensors.size(); ++i) {
    EXPECT_EQ(one.tensors[i].nmse, seven.tensors[i].nmse);
    EXPECT_EQ(one.tensors[i].worst.row, seven.tensors[i].worst.row);
    EXPECT_EQ(one.tensors[i].worst.nmse, seven.tensors[i].worst.nmse);
  }
}

TEST_F(VerifyTensorsTest, ProgressReachesTheEndAndCanStop) {
  uint64_t last = 0;
  TensorsOptions options;
  options.threads = 2;
  options.progress = [&last](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, total);
    last = done;
    return true;
  };
  const TensorsReport report = Verify(damage_.good(), *plan_, options);
  EXPECT_EQ(last, report.values);
  options.progress = [](uint64_t, uint64_t) { return false; };
  EXPECT_EQ(VerifyAgainstPlan(damage_.good(), *plan_, options).status().code(),
            absl::StatusCode::kCancelled);
}

// However it was rounded: the archive is plain rounding's, whose errors are about 1.0 times theory.
TEST_F(VerifyTensorsTest, GivenLimitsHoldForEveryMatrix) {
  const auto matrices = std::ranges::count(damage_.good().schema().tensors(), format::DType::kCq,
                                           &format::TensorSpec::dtype);
  for (const bool locate_worst : {true, false}) {
    TensorsOptions options;
    options.locate_worst = locate_worst;
    options.limits.max_tensor_ratio = 0.5;
    const TensorsReport tight = VerifyDamage(options);
    EXPECT_EQ(std::ranges::count(tight.tensors, Match::kDiffers, &TensorCheck::match), matrices);
    ASSERT_EQ(tight.limits.size(), 1U);
    EXPECT_EQ(tight.limits[0].name, "max-tensor-ratio");
    EXPECT_EQ(tight.limits[0].matrices, static_cast<size_t>(matrices));
    options.limits.max_tensor_ratio = 1.5;
    EXPECT_TRUE(VerifyDamage(options).passed());
    options.limits.max_tensor_ratio.reset();
    options.limits.max_group_nmse = 0.001;
    const TensorsReport groups = VerifyDamage(options);
    EXPECT_EQ(std::ranges::count(groups.tensors, Match::kDiffers, &TensorCheck::match), matrices);
    EXPECT_EQ(CheckOf(groups, kLargest).bad_groups, CheckOf(groups, kLargest).groups);
    options.limits.max_group_nmse = 1;
    EXPECT_TRUE(VerifyDamage(options).passed());
  }
}

// Every width, padding, both generations, adapters left out: the reference's own archives.
TEST(VerifyTensorsGoldenTest, AcceptsTheReferencesArchivesOfEveryScheme) {
  for (const std::string name :
       {"n3-odd/cq2", "n3-odd/cq3", "n3-odd/cq4", "n3-odd/binary", "n3-odd/ternary", "n3-odd/mixed",
        "n3-pad/cq2", "n3-pad/cq4", "n3-small/cq2", "n3-small/cq4", "n2-small/cq2",
        "n2-small/ternary"}) {
    const std::string folder = "golden/" + name.substr(0, name.find('/'));
    const auto archive = format::Archive::Open(tests::Testdata("golden/" + name + ".cact"));
    ASSERT_OK(archive);
    const TensorsReport report = Verify(*archive, *MakePlan(folder + "/checkpoint.safetensors"));
    EXPECT_THAT(AllFailures(report), IsEmpty()) << name;
    EXPECT_TRUE(report.passed()) << name;
  }
}

// An encoder that does not round to nearest: it encodes weights that are a little off, as one does
// that spends error where the activations do not see it.
class NoisyEncoder : public converter::TensorEncoder {
 public:
  // `noise`: of the width's own error. `signal`: what is left of the weights.
  explicit NoisyEncoder(double noise, float signal = 1) : noise_(noise), signal_(signal) {}

  absl::StatusOr<quant::EncodeStats> Encode(
      const converter::EncodeRequest& request) const override {
    std::mt19937 random(static_cast<uint32_t>(request.position * 100'000 + request.first_row));
    double squares = 0;
    for (const float weight : request.weights) squares += static_cast<double>(weight * weight);
    const double rms = std::sqrt(squares / static_cast<double>(request.weights.size()));
    const double theory = quant::TheoreticalDistortion(request.codebook->width());
    std::normal_distribution<float> noise(0, static_cast<float>(noise_ * std::sqrt(theory) * rms));
    std::vector<float> weights(request.weights.begin(), request.weights.end());
    for (float& weight : weights) weight = signal_ * weight + noise(random);
    return quant::EncodeRows(weights, request.cols, request.first_row, *request.codebook,
                             request.indices, request.norms);
  }
  std::string Recipe(size_t) const override { return "noisy"; }

 private:
  double noise_;
  float signal_;
};

class OtherRoundingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    plan_ = MakePlan("fixture/checkpoint.safetensors", "embedding=4,mhc=4,attn.v_proj=1,default=2");
    folder_ = std::make_unique<tests::TempFolder>();
    Build(NoisyEncoder(kNoise), "noisy.cact");
  }
  static void TearDownTestSuite() {
    folder_.reset();
    plan_.reset();
  }

  static void Build(const NoisyEncoder& encoder, const std::string& name) {
    converter::BuildOptions options;
    options.threads = 1;
    options.encoder = &encoder;
    ValueOf(converter::Build(*plan_, folder_->File(name), options));
  }

  TensorsReport VerifyDamage(Rounding rounding = Rounding::kAuto) const {
    TensorsOptions options;
    options.limits.rounding = rounding;
    return Verify(ValueOf(damage_.Reopen()), *plan_, options);
  }

  static constexpr double kNoise = 0.7;
  static inline std::shared_ptr<const converter::TensorPlan> plan_;
  static inline std::unique_ptr<tests::TempFolder> folder_;
  Damage damage_{folder_->File("noisy.cact")};
};

TEST_F(OtherRoundingTest, IsAcceptedWithItsErrorInTheReport) {
  const TensorsReport report = VerifyDamage();
  EXPECT_THAT(AllFailures(report), IsEmpty());
  const TensorCheck& check = CheckOf(report, "layer00.q_proj");
  EXPECT_EQ(check.match, Match::kWithin);
  EXPECT_LT(4 * check.plain_groups, check.groups);
  // The noise adds its square.
  EXPECT_NEAR(check.nmse / check.theory, 1 + kNoise * kNoise, 0.2);
}

TEST_F(OtherRoundingTest, IsRefusedWherePlainRoundingIsWanted) {
  const TensorsReport report = VerifyDamage(Rounding::kPlain);
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(CheckOf(report, "layer00.q_proj").match, Match::kDiffers);
}

TEST_F(OtherRoundingTest, ColumnMajorNormsAreStillNamed) {
  // v_proj is binary: its indices are plain rounding's whatever the norms are.
  for (const char* tensor : {"layer02.q_proj", "layer02.out_proj", "layer03.v_proj"}) {
    Damage damage(folder_->File("noisy.cact"));
    damage.TransposeNorms(tensor);
    const TensorsReport report = Verify(ValueOf(damage.Reopen()), *plan_);
    EXPECT_THAT(AllFailures(report),
                ElementsAre(AllOf(StartsWith(std::string(tensor) + ": the norms"),
                                  HasSubstr("row "), HasSubstr("group "))));
  }
}

TEST_F(OtherRoundingTest, AGroupFarOffIsNamed) {
  const uint16_t norm = damage_.Norm("layer02.q_proj", 17, 1);
  damage_.SetNorm("layer02.q_proj", 17, 1, static_cast<uint16_t>(norm + (2U << 10)));  // times 4
  EXPECT_THAT(AllFailures(VerifyDamage()),
              ElementsAre(StartsWith("layer02.q_proj: row 17, group 1: error ")));
}

TEST_F(OtherRoundingTest, ATensorOfZerosIsNamed) {
  const format::CqLayout layout = damage_.View("layer02.k_proj").layout;
  for (uint64_t i = 0; i < layout.rows * layout.groups; ++i) {
    damage_.SetNorm("layer02.k_proj", i / layout.groups, i % layout.groups, 0);
  }
  EXPECT_THAT(AllFailures(VerifyDamage()),
              Contains(AllOf(StartsWith("layer02.k_proj: error 1 of"), HasSubstr("row "))));
}

// The limits can be changed, and each can fail.
TEST_F(OtherRoundingTest, LimitsCanBeChanged) {
  TensorsOptions options;
  options.limits.max_tensor_ratio = 1;
  EXPECT_FALSE(Verify(damage_.good(), *plan_, options).passed());
  options = {};
  options.limits.max_group_nmse = 0.1;
  EXPECT_FALSE(Verify(damage_.good(), *plan_, options).passed());
  options = {};
  options.limits.min_norm_correlation = 0.9999;
  EXPECT_FALSE(Verify(damage_.good(), *plan_, options).passed());
}

// Weights that a calibration changed to correct errors of others: noise of 2.5 times the width's
// error, so a squared error of about 7 times theory.
class CorrectedTest : public OtherRoundingTest {
 protected:
  static void SetUpTestSuite() {
    OtherRoundingTest::SetUpTestSuite();
    Build(NoisyEncoder(2.5), "corrected.cact");
  }
  Damage corrected_{folder_->File("corrected.cact")};
};

TEST_F(CorrectedTest, PassesAsWhatItIs) {
  const TensorsReport report = Verify(corrected_.good(), *plan_);
  EXPECT_THAT(AllFailures(report), IsEmpty());
  const TensorCheck& check = CheckOf(report, "layer00.q_proj");
  EXPECT_EQ(check.match, Match::kCorrected);
  EXPECT_GT(check.nmse, 4 * check.theory);
  EXPECT_THAT(report.notes, Contains(HasSubstr("matrices are further from the weights")));
}

TEST_F(CorrectedTest, ALimitThatIsGivenHolds) {
  TensorsOptions options;
  options.limits.max_tensor_ratio = 4;
  EXPECT_THAT(AllFailures(Verify(corrected_.good(), *plan_, options)),
              Contains(StartsWith("layer00.q_proj: error ")));
  options = {};
  options.limits.min_cosine = 0.99;
  EXPECT_THAT(AllFailures(Verify(corrected_.good(), *plan_, options)),
              Contains(StartsWith("layer00.q_proj: error ")));
}

TEST_F(CorrectedTest, AGroupFarOffIsNamed) {
  const uint16_t norm = corrected_.Norm("layer02.q_proj", 17, 1);
  corrected_.SetNorm("layer02.q_proj", 17, 1, static_cast<uint16_t>(norm + (3U << 10)));  // times 8
  EXPECT_THAT(AllFailures(Verify(ValueOf(corrected_.Reopen()), *plan_)),
              ElementsAre(StartsWith("layer02.q_proj: row 17, group 1: error ")));
}

// So many of them that the tensor's own error is no measure.
TEST_F(CorrectedTest, ManyGroupsFarOffAreNamed) {
  const uint64_t rows = corrected_.View("layer02.q_proj").layout.rows;
  for (uint64_t row = 0; row < rows; row += 8) {
    const uint16_t norm = corrected_.Norm("layer02.q_proj", row, 1);
    corrected_.SetNorm("layer02.q_proj", row, 1, static_cast<uint16_t>(norm + (4U << 10)));
  }
  EXPECT_THAT(AllFailures(Verify(ValueOf(corrected_.Reopen()), *plan_)),
              Contains(StartsWith("layer02.q_proj: row 0, group 1: error ")));
}

// Another model's weights: nothing of the source's is left.
TEST_F(CorrectedTest, UnrelatedWeightsAreNotACorrection) {
  Build(NoisyEncoder(1, 0), "unrelated.cact");
  const Damage unrelated(folder_->File("unrelated.cact"));
  const TensorsReport report = Verify(unrelated.good(), *plan_);
  for (const TensorCheck& check : report.tensors) {
    EXPECT_EQ(check.match, check.width ? Match::kDiffers : Match::kIdentical) << check.name;
  }
}

// An encoder whose choice is far from the weights: plain rounding with every norm at an eighth.
class SmallNorms final : public converter::TensorEncoder {
 public:
  absl::StatusOr<quant::EncodeStats> Encode(
      const converter::EncodeRequest& request) const override {
    auto stats = converter::RoundToNearest().Encode(request);
    for (uint16_t& norm : request.norms) norm = static_cast<uint16_t>(norm - (3U << 10));
    return stats;
  }
  std::string Recipe(size_t) const override { return "small"; }
};

class ChosenTest : public VerifyTensorsTest {
 protected:
  // The archive that a build with SmallNorms writes, with `damage` to its bytes.
  TensorsReport Built(const std::function<void(Damage&)>& damage) const {
    const tests::TempFolder folder;
    const SmallNorms encoder;
    converter::BuildOptions build;
    build.encoder = &encoder;
    ValueOf(converter::Build(*plan_, folder.File("small.cact"), build));
    Damage archive(folder.File("small.cact"));
    damage(archive);
    TensorsOptions options;
    options.encoder = &encoder;
    return Verify(ValueOf(archive.Reopen()), *plan_, options);
  }
};

TEST_F(ChosenTest, WhatTheEncoderChosePassesWhateverItsError) {
  const TensorsReport report = Built([](Damage&) {});
  EXPECT_THAT(AllFailures(report), IsEmpty());
  EXPECT_TRUE(report.passed());
  EXPECT_TRUE(report.by_encoder);
  for (const TensorCheck& check : report.tensors) EXPECT_EQ(check.match, Match::kIdentical);
}

TEST_F(ChosenTest, OneFlippedIndexBitIsNamed) {
  const TensorsReport report =
      Built([](Damage& archive) { archive.FlipIndexBit(kLargest, 600, 0); });
  EXPECT_THAT(AllFailures(report),
              ElementsAre("embedding: row 600, group 0: not the indices that the build chose"));
}

TEST_F(ChosenTest, SwappedNormsOfTwoRowsAreNamed) {
  const TensorsReport report =
      Built([](Damage& archive) { archive.SwapNormsOfRows(kLargest, 300, 500); });
  EXPECT_THAT(AllFailures(report),
              ElementsAre("embedding: row 300, group 0: not the norm that the build chose",
                          "embedding: row 300, group 1: not the norm that the build chose",
                          "embedding: row 500, group 0: not the norm that the build chose",
                          "embedding: row 500, group 1: not the norm that the build chose"));
}

}  // namespace
}  // namespace needle::verify
