// Field case F04: numbers at the edges of f16 and f32.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "converter/archive_source.h"
#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_checkpoint.h"

namespace needle::converter {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using tests::StatusIs;
using tests::TempFolder;
using tests::TestCheckpoint;
using tests::Testdata;

constexpr char kNorm[] = "stack/layers/block/ZCRMSNorm_0/scale";  // [4, 192]

class EdgeValuesTest : public ::testing::Test {
 protected:
  EdgeValuesTest() { checkpoint_.Widen(); }

  // Sets weight [row, first ... end - 1] of layer 0's q_proj in the archive's orientation.
  void SetRow(size_t row, size_t first, size_t end, float value) {
    for (size_t in = first; in < end; ++in)
      checkpoint_.Set(tests::kQProjLeaf, in * tests::kQProjOut + row, value);
  }
  absl::StatusOr<BuildReport> Build() {
    checkpoint_.Write(folder_.File("c.safetensors"));
    return tests::BuildArchive(folder_.File("c.safetensors"), target());
  }
  std::string target() const { return folder_.File("c.cact"); }
  // Row of layer 0's q_proj as the archive decodes it.
  std::vector<float> Decoded(size_t row) {
    const auto archive = format::Archive::Open(target());
    EXPECT_OK(archive);
    const auto source = ArchiveSource::Make(*archive);
    EXPECT_OK(source);
    std::vector<float> values(tests::kQProjIn);
    EXPECT_OK(source->ReadRows(*archive->schema().FindName("layer00.q_proj"), row, 1, values));
    return values;
  }
  static const TensorReport& QProj(const BuildReport& report) { return report.tensors[2]; }

  TempFolder folder_;
  TestCheckpoint checkpoint_ = TestCheckpoint::Load("golden/n3-pad/checkpoint.safetensors");
};

TEST_F(EdgeValuesTest, ZeroRowDecodesToExactZeros) {
  SetRow(5, 0, tests::kQProjIn, 0.0F);
  const auto report = Build();
  ASSERT_OK(report);
  EXPECT_EQ(QProj(*report).name, "layer00.q_proj");
  EXPECT_EQ(QProj(*report).stats.zero_groups, 2U);  // 192 weights: two groups
  EXPECT_EQ(Decoded(5), std::vector<float>(tests::kQProjIn, 0.0F));
  EXPECT_TRUE(report->warnings.empty());
}

TEST_F(EdgeValuesTest, NegativeZerosAreZeros) {
  SetRow(5, 0, tests::kQProjIn, -0.0F);
  ASSERT_OK(Build());
  for (const float value : Decoded(5)) EXPECT_EQ(value, 0.0F);
}

TEST_F(EdgeValuesTest, VanishingNormsAreCountedAndWarnedOf) {
  SetRow(5, 0, 128, 1e-11F);
  SetRow(6, 0, 128, 1e-25F);  // its squares vanish in f32
  SetRow(7, 0, 128, 1e-6F);   // norm 1.1e-5: subnormal, but not 0
  const auto report = Build();
  ASSERT_OK(report);
  EXPECT_EQ(QProj(*report).stats.subnormal_norms, 3U);
  EXPECT_THAT(report->warnings,
              Contains(AllOf(HasSubstr("layer00.q_proj"), HasSubstr("3 of 96 group norms"))));
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(Decoded(5)[i], 0.0F);
    EXPECT_EQ(Decoded(6)[i], 0.0F);
  }
}

TEST_F(EdgeValuesTest, NormsBeyondF16AreRefusedWithTensorAndRow) {
  for (const float value : {1e20F, 65520.0F}) {
    SetRow(7, 0, 128, 0.0F);
    SetRow(7, 0, 1, value);
    EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss,
                                  AllOf(HasSubstr("layer00.q_proj"), HasSubstr("row 7"))))
        << value;
  }
  // 1e20 in every weight: the sum of squares overflows f32.
  SetRow(7, 0, 128, 1e20F);
  EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("row 7")));
  SetRow(7, 0, 128, 0.0F);
  SetRow(7, 0, 1, 65000.0F);
  EXPECT_OK(Build());
}

TEST_F(EdgeValuesTest, NanAndInfinityAreRefusedWithTensorRowAndColumn) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const size_t last = checkpoint_.tensors[tests::kQProjLeaf].bytes.size() / sizeof(float) - 1;
    checkpoint_.Set(tests::kQProjLeaf, last, value);
    EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss,
                                  AllOf(HasSubstr("layer03.q_proj"), HasSubstr("row 47"),
                                        HasSubstr("column 191"))));
    EXPECT_EQ(folder_.Names(), std::vector<std::string>{"c.safetensors"});
  }
}

TEST_F(EdgeValuesTest, Fp16TensorsAreCheckedAfterNarrowing) {
  checkpoint_.Set(kNorm, tests::kQProjIn + 3, 70000.0F);
  EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss,
                                AllOf(HasSubstr("layer01.norm_in"), HasSubstr("row 0, column 3"),
                                      HasSubstr("70000"))));
  checkpoint_.Set(kNorm, tests::kQProjIn + 3, 65519.0F);  // rounds to 65504
  EXPECT_OK(Build());
  checkpoint_.Set(kNorm, tests::kQProjIn + 3, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("layer01.norm_in")));
  checkpoint_.Set(kNorm, tests::kQProjIn + 3, 1e-8F);
  const auto report = Build();
  ASSERT_OK(report);
  EXPECT_THAT(report->warnings,
              Contains(AllOf(HasSubstr("layer01.norm_in"), HasSubstr("1 values"))));
}

TEST_F(EdgeValuesTest, F64WeightsBeyondF32AreRefused) {
  std::string wide;
  const std::string narrow = checkpoint_.tensors[tests::kQProjLeaf].bytes;
  for (size_t i = 0; i < narrow.size(); i += sizeof(float)) {
    TestCheckpoint::Append(wide, static_cast<double>(base::LoadLe<float>(&narrow[i])));
  }
  checkpoint_.tensors[tests::kQProjLeaf].dtype = "F64";
  checkpoint_.tensors[tests::kQProjLeaf].bytes = wide;
  ASSERT_OK(Build());
  const std::string good = tests::ReadFile(target());
  checkpoint_.Set(tests::kQProjLeaf, 0, 1e300);
  EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss,
                                AllOf(HasSubstr("layer00.q_proj"), HasSubstr("row 0, column 0"))));
  // The older file at the target is as it was.
  EXPECT_TRUE(tests::ReadFile(target()) == good);
  // In f64 the same weights make the same bytes.
  checkpoint_ = TestCheckpoint::Load("golden/n3-pad/checkpoint.safetensors");
  ASSERT_OK(Build());
  EXPECT_TRUE(tests::ReadFile(target()) == good);
}

TEST_F(EdgeValuesTest, Bf16SubnormalsVanishWithAWarning) {
  checkpoint_ = TestCheckpoint::Load("golden/n3-pad/checkpoint.safetensors");
  for (size_t in = 0; in < tests::kQProjIn; ++in)
    checkpoint_.Set(tests::kQProjLeaf, in * tests::kQProjOut + 5, uint16_t{0x0001});
  const auto report = Build();
  ASSERT_OK(report);
  EXPECT_EQ(QProj(*report).stats.subnormal_norms, 2U);
  EXPECT_EQ(Decoded(5), std::vector<float>(tests::kQProjIn, 0.0F));
}

}  // namespace
}  // namespace needle::converter
