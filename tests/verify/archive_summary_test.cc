#include "converter/verify/archive_summary.h"

#include <cmath>

#include "format/archive.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quant/codebook.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::verify {
namespace {

// n3-odd's mixed archive has every width; its counts were made from the directory by hand (a
// record's dtype and bits): 3 layers of 24 tensors without taps.
TEST(ArchiveSummaryTest, CountsEveryTensorOnceInOrderOfWidth) {
  const auto archive = format::Archive::Open(tests::Testdata("golden/n3-odd/mixed.cact"));
  ASSERT_OK(archive);
  uint64_t tensors = 0, bytes = 0;
  std::vector<std::string> kinds;
  for (const KindTotals& kind : SummariseKinds(archive->schema(), archive->records())) {
    kinds.push_back(kind.kind);
    tensors += kind.tensors;
    bytes += kind.bytes;
  }
  uint64_t blob_bytes = 0;
  for (const format::Record& record : archive->records()) blob_bytes += record.num_bytes;
  EXPECT_EQ(tensors, archive->records().size());
  EXPECT_EQ(bytes, blob_bytes);
  EXPECT_THAT(kinds,
              ::testing::ElementsAre("binary", "ternary", "CQ2", "CQ3", "CQ4", "FP16", "FP32"));
}

TEST(ArchiveSummaryTest, TellsWhoseCodebooks) {
  EXPECT_EQ(CodebookOrigin(quant::StoredCodebooks(quant::CodebookKind::kReference)), "reference");
  EXPECT_EQ(CodebookOrigin(quant::StoredCodebooks(quant::CodebookKind::kAnalytic)), "analytic");
  EXPECT_EQ(CodebookOrigin({}), "none");
  const auto reference = quant::StoredCodebooks(quant::CodebookKind::kReference);
  std::vector<float> changed(reference.begin(), reference.end());
  changed[5] = std::nextafter(changed[5], 1.0F);
  EXPECT_EQ(CodebookOrigin(changed), "other");
}

TEST(ArchiveSummaryTest, LeavesByTypeAsTheFileSpellsIt) {
  const std::vector<converter::Leaf> leaves = {
      {"a", quant::SourceType::kF32, "F32", {2, 3}},
      {"b", quant::SourceType::kBf16, "BF16", {4}},
      {"c", quant::SourceType::kF32, "F32", {}},
  };
  const std::vector<KindTotals> kinds = SummariseLeaves(leaves);
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_EQ(kinds[0].kind, "BF16");
  EXPECT_EQ(kinds[0].bytes, 8U);
  EXPECT_EQ(kinds[1].kind, "F32");
  EXPECT_EQ(kinds[1].tensors, 2U);
  EXPECT_EQ(kinds[1].values, 7U);
  EXPECT_EQ(kinds[1].bytes, 28U);
}

}  // namespace
}  // namespace needle::verify
