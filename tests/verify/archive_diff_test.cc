#include "converter/verify/archive_diff.h"

#include <cmath>

#include "base/endian.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/fixture.h"

namespace needle::verify {
namespace {

using tests::ReadBytes;
using tests::Testdata;

// The fixture's archive with some bytes changed, opened again.
class DiffTest : public ::testing::Test {
 protected:
  format::Archive Changed() {
    auto archive = format::Archive::FromBytes(bytes_, "changed");
    EXPECT_OK(archive);
    return *std::move(archive);
  }
  ArchiveDiff Diff() {
    const format::Archive changed = Changed();
    auto diff = DiffArchives(original_, changed);
    EXPECT_OK(diff);
    return *std::move(diff);
  }
  size_t Position(const std::string& name) { return original_.schema().FindName(name).value(); }
  uint64_t Offset(const std::string& name) { return original_.records()[Position(name)].offset; }

  std::vector<uint8_t> bytes_ = ReadBytes(Testdata("fixture/cq2.cact"));
  format::Archive original_ = OpenArchive("fixture/cq2.cact");
};

TEST_F(DiffTest, TheSameBytes) {
  const ArchiveDiff diff = Diff();
  EXPECT_EQ(diff.verdict, DiffVerdict::kByteIdentical);
  EXPECT_TRUE(diff.same_model());
}

TEST_F(DiffTest, OneFlippedIndex) {
  bytes_[Offset("layer01.q_proj") + 3] ^= 0x01;
  const ArchiveDiff diff = Diff();
  EXPECT_EQ(diff.verdict, DiffVerdict::kDifferent);
  EXPECT_FALSE(diff.same_model());
  ASSERT_EQ(diff.tensors.size(), 1U);
  EXPECT_EQ(diff.tensors[0].name, "layer01.q_proj");
  EXPECT_EQ(diff.tensors[0].kind_a, "CQ2");
  EXPECT_EQ(diff.tensors[0].indices_flipped, 1U);
  EXPECT_EQ(diff.tensors[0].norms_changed, 0U);
  // One entry of a rotated group moves every value of the group.
  EXPECT_EQ(diff.tensors[0].values_changed, 128U);
  EXPECT_GT(*diff.tensors[0].nmse, 0);
}

TEST_F(DiffTest, OneNormThreeStepsUp) {
  const format::CqView view = original_.Cq(Position("layer01.q_proj"));
  const uint64_t offset = Offset("layer01.q_proj") + view.layout.norms_offset;
  base::StoreLe<uint16_t>(&bytes_[offset],
                          static_cast<uint16_t>(base::LoadLe<uint16_t>(&bytes_[offset]) + 3));
  const ArchiveDiff diff = Diff();
  ASSERT_EQ(diff.tensors.size(), 1U);
  EXPECT_EQ(diff.tensors[0].indices_flipped, 0U);
  EXPECT_EQ(diff.tensors[0].norms_changed, 1U);
  EXPECT_EQ(diff.tensors[0].largest_norm_step, 3U);
}

// A codebook entry is read by every tensor of its width, so the same indices mean other weights.
TEST_F(DiffTest, OneCodebookEntryChangesItsWidthsTensors) {
  const size_t offset = 196 + 1 * sizeof(float);
  base::StoreLe<float>(&bytes_[offset], std::nextafter(base::LoadLe<float>(&bytes_[offset]), 1.0F));
  const ArchiveDiff diff = Diff();
  EXPECT_EQ(diff.verdict, DiffVerdict::kDifferent);
  ASSERT_EQ(diff.codebooks.size(), 1U);
  EXPECT_EQ(diff.codebooks[0].name, "codebooks[1]");
  for (const TensorDifference& tensor : diff.tensors) EXPECT_EQ(tensor.kind_a, "CQ2");
  EXPECT_FALSE(diff.tensors.empty());
}

TEST_F(DiffTest, OneHeaderField) {
  const size_t kv_window = 12;
  base::StoreLe<uint32_t>(&bytes_[kv_window], 160);
  const ArchiveDiff diff = Diff();
  ASSERT_EQ(diff.header.size(), 1U);
  EXPECT_EQ(diff.header[0].name, "kv_window");
  EXPECT_EQ(diff.header[0].b, "160");
  EXPECT_TRUE(diff.tensors.empty());
  EXPECT_EQ(diff.verdict, DiffVerdict::kDifferent);
}

TEST_F(DiffTest, OnePieceOfTheTokenizerLeavesTheWeightsTheSame) {
  const uint64_t offset = Offset("tokenizer") + 24;  // the score of piece 0
  base::StoreLe<float>(&bytes_[offset], -3.5F);
  const ArchiveDiff diff = Diff();
  EXPECT_EQ(diff.verdict, DiffVerdict::kSameWeights);
  EXPECT_FALSE(diff.same_model());
  ASSERT_EQ(diff.tokenizer.size(), 1U);
  EXPECT_EQ(diff.tokenizer[0].name, "piece 0");
  EXPECT_THAT(diff.tokenizer[0].b, ::testing::HasSubstr("score -3.5"));
}

// +0 and -0 are stored differently and mean the same.
TEST_F(DiffTest, NegativeZeroIsTheSameWeight) {
  const size_t position = Position("final_norm");
  const uint64_t offset = original_.records()[position].offset;
  base::StoreLe<uint16_t>(&bytes_[offset], 0);
  const format::Archive zero = Changed();
  base::StoreLe<uint16_t>(&bytes_[offset], 0x8000);
  const format::Archive negative = Changed();
  const auto diff = DiffArchives(zero, negative);
  ASSERT_OK(diff);
  EXPECT_EQ(diff->verdict, DiffVerdict::kSameWeights);
  EXPECT_TRUE(diff->same_model());
  ASSERT_EQ(diff->tensors.size(), 1U);
  EXPECT_EQ(diff->tensors[0].values_changed, 0U);
}

TEST(ArchiveDiffTest, WidthsDepthsAndGenerations) {
  const format::Archive two = OpenArchive("golden/n3-odd/cq2.cact");
  const format::Archive three = OpenArchive("golden/n3-odd/cq3.cact");
  const auto widths = DiffArchives(two, three);
  ASSERT_OK(widths);
  bool found = false;
  for (const TensorDifference& tensor : widths->tensors) {
    if (tensor.name != "layer00.q_proj") continue;
    found = true;
    EXPECT_EQ(tensor.kind_a, "CQ2");
    EXPECT_EQ(tensor.kind_b, "CQ3");
    EXPECT_FALSE(tensor.indices_flipped.has_value());
    // Two roundings of one matrix: about the sum of both distortions, 0.1175 + 0.0345.
    EXPECT_NEAR(*tensor.nmse, 0.152, 0.05);
  }
  EXPECT_TRUE(found);

  const auto depths = DiffArchives(two, OpenArchive("golden/n3-odd/cq2.layers2.cact"));
  ASSERT_OK(depths);
  EXPECT_FALSE(depths->only_in_a.empty());
  EXPECT_TRUE(depths->only_in_b.empty());
  EXPECT_EQ(depths->verdict, DiffVerdict::kDifferent);

  const auto generations = DiffArchives(two, OpenArchive("golden/n2-small/cq2.cact"));
  ASSERT_OK(generations);
  ASSERT_EQ(generations->header.size(), 1U);
  EXPECT_EQ(generations->header[0].b, "Needle 2");
}

}  // namespace
}  // namespace needle::verify
