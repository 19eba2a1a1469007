// Field case F14: a verifier that cannot fail. What needs no source to be seen.
#include "converter/verify/verify_structure.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/damage.h"

namespace needle::verify {
namespace {

using format::Width;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

StructureReport Verify(const Damage& damage, const StructureOptions& options = {}) {
  const auto archive = damage.Reopen();
  EXPECT_OK(archive);
  return archive.ok() ? VerifyStructure(*archive, options) : StructureReport{};
}

class VerifyStructureTest : public ::testing::Test {
 protected:
  Damage damage_{tests::Testdata("fixture/cq2.cact")};
};

TEST_F(VerifyStructureTest, AcceptsTheReferencesArchiveAndCounts) {
  const StructureReport report = VerifyStructure(damage_.good(), {});
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_TRUE(report.passed());
  EXPECT_EQ(report.codebooks, quant::CodebookKind::kReference);
  EXPECT_EQ(report.tensors, damage_.good().records().size());
  // 6 layers and 2 sites: embedding and mhc_phi_* at 4 bits; 5 projections a layer, 3 matrices a
  // site at 2; the two permutations; the tokenizer.
  EXPECT_THAT(report.cq_tensors, ElementsAre(Pair(Width::kCq2, 36), Pair(Width::kCq4, 4)));
  EXPECT_EQ(report.fp32_tensors, 2);
  EXPECT_EQ(report.raw_tensors, 1);
  EXPECT_EQ(report.fp16_tensors, report.tensors - 43);
  EXPECT_GT(report.weights, 2'000'000);
  EXPECT_EQ(report.norms * 128, report.weights);  // every row of this model is whole groups
}

TEST_F(VerifyStructureTest, AcceptsEveryGoldenArchive) {
  for (const char* name :
       {"n2-small/cq2", "n2-small/cq3", "n2-small/ternary", "n3-odd/binary", "n3-odd/cq2",
        "n3-odd/cq2.layers2", "n3-odd/cq3", "n3-odd/cq4", "n3-odd/mixed", "n3-odd/ternary",
        "n3-pad/cq2", "n3-pad/cq4", "n3-small/cq2", "n3-small/cq2.lora", "n3-small/cq4"}) {
    const auto archive =
        format::Archive::Open(tests::Testdata("golden/" + std::string(name) + ".cact"));
    ASSERT_OK(archive);
    EXPECT_THAT(VerifyStructure(*archive, {.threads = 2}).failures, IsEmpty()) << name;
  }
}

TEST_F(VerifyStructureTest, NamesACodebookEntryThatDiffersInItsLastBit) {
  damage_.FlipCodebookBit(6);
  const StructureReport report = Verify(damage_);
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.codebooks, std::nullopt);
  EXPECT_THAT(report.failures, ElementsAre(AllOf(HasSubstr("cb3[2]"), HasSubstr("0xbd87797c"),
                                                 HasSubstr("0xbd87797d"))));
}

TEST_F(VerifyStructureTest, OtherCodebooksMayBeAllowed) {
  damage_.FlipCodebookBit(27);
  const StructureReport report = Verify(damage_, {.allow_other_codebooks = true});
  EXPECT_TRUE(report.passed());
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("cb4[15]")));
}

TEST_F(VerifyStructureTest, NamesANegativeNorm) {
  damage_.SetNorm("layer03.q_proj", 5, 1, damage_.Norm("layer03.q_proj", 5, 1) | 0x8000U);
  const StructureReport report = Verify(damage_);
  EXPECT_EQ(report.num_failures, 1);
  EXPECT_THAT(report.failures, ElementsAre(HasSubstr("layer03.q_proj: row 5, group 1: norm -")));
}

TEST_F(VerifyStructureTest, CountsZeroAndSubnormalNorms) {
  const StructureReport before = VerifyStructure(damage_.good(), {});
  damage_.SetNorm("layer03.q_proj", 5, 1, 0);
  damage_.SetNorm("layer03.q_proj", 6, 0, 0x03FF);
  const StructureReport after = Verify(damage_);
  EXPECT_EQ(after.zero_norms, before.zero_norms + 1);
  EXPECT_EQ(after.subnormal_norms, before.subnormal_norms + 1);
}

TEST_F(VerifyStructureTest, CountsFailuresThatAreTooManyToList) {
  for (uint64_t row = 0; row < 50; ++row) {
    damage_.SetNorm("embedding", row, 0, damage_.Norm("embedding", row, 0) | 0x8000U);
  }
  const StructureReport report = Verify(damage_, {.threads = 2});
  EXPECT_EQ(report.num_failures, 50);
  EXPECT_LT(report.failures.size(), 50);
}

TEST_F(VerifyStructureTest, NamesAPermutationThatNoBuildGives) {
  const uint64_t offset = damage_.Offset("hada_p2");
  const float first = base::LoadLe<float>(&damage_.bytes()[offset]);
  const float second = base::LoadLe<float>(&damage_.bytes()[offset + 4]);
  base::StoreLe(&damage_.bytes()[offset], second);
  base::StoreLe(&damage_.bytes()[offset + 4], first);
  EXPECT_THAT(Verify(damage_).failures,
              ElementsAre(AllOf(HasSubstr("hada_p2"), HasSubstr("value 0"))));
}

TEST_F(VerifyStructureTest, NamesAWindowBeyondTheBudget) {
  // Header field 3, kv_window.
  base::StoreLe<uint32_t>(&damage_.bytes()[12], 4'000'000'000U);
  EXPECT_THAT(Verify(damage_).failures, Contains(HasSubstr("kv_window: 4000000000, want at most")));
}

// These are Archive::Open's to refuse: nothing else ever sees them.
TEST_F(VerifyStructureTest, OpeningRefusesNormsThatAreNoNumbers) {
  for (const uint16_t bits : std::initializer_list<uint16_t>{0x7E00, 0x7C00, 0xFC00}) {
    Damage damage(tests::Testdata("fixture/cq2.cact"));
    damage.SetNorm("layer03.q_proj", 5, 1, bits);
    EXPECT_THAT(damage.Reopen(),
                tests::StatusIs(absl::StatusCode::kDataLoss,
                                AllOf(HasSubstr("layer03.q_proj"), HasSubstr("row 5, group 1"))));
  }
}

}  // namespace
}  // namespace needle::verify
