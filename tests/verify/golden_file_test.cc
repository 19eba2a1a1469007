// Golden tensors, against those that the reference wrote.
#include "converter/verify/golden_file.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "converter/leaf_container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"

namespace needle::verify {
namespace {

using ::testing::HasSubstr;
using tests::StatusIs;
using tests::TempFolder;
using tests::Testdata;

constexpr char kArchive[] = "golden/n3-odd/mixed.cact";

// The reference's own decoded tensors: the same names, shapes and, within the specification's
// 2e-6 of the largest magnitude in the group, values. All plain tensors are exact.
TEST(GoldenFileTest, DecodesAsTheReferenceDoes) {
  const TempFolder folder;
  const auto archive = format::Archive::Open(Testdata(kArchive));
  ASSERT_OK(archive);
  const tests::GoldenTensors reference("golden/n3-odd/mixed.dequantised.safetensors");
  for (const char* name : {"golden.npz", "golden.safetensors"}) {
    SCOPED_TRACE(name);
    const auto report = WriteGolden(*archive, folder.File(name));
    ASSERT_OK(report);
    const auto golden = OpenGolden(folder.File(name));
    ASSERT_OK(golden);
    EXPECT_EQ((*golden)->tensors().size(), report->num_tensors);
    for (size_t i = 0; i < (*golden)->tensors().size(); ++i) {
      const converter::Leaf& leaf = (*golden)->tensors()[i];
      SCOPED_TRACE(leaf.name);
      const auto& wanted = reference.Floats(leaf.name);
      EXPECT_EQ(std::vector<size_t>(leaf.shape.begin(), leaf.shape.end()), wanted.shape);
      const auto values = (*golden)->Values(i);
      ASSERT_OK(values);
      ASSERT_EQ(values->size(), wanted.values.size());
      float largest = 0;
      for (const float value : wanted.values) largest = std::max(largest, std::abs(value));
      const bool cq = archive->schema().tensors()[*archive->schema().FindName(leaf.name)].dtype ==
                      format::DType::kCq;
      // The largest magnitude of the tensor stands for the group's: verify checks by group.
      const float tolerance = cq ? 2e-6F * largest : 0;
      for (size_t k = 0; k < values->size(); ++k) {
        ASSERT_NEAR((*values)[k], wanted.values[k], tolerance) << "value " << k;
      }
    }
  }
}

TEST(GoldenFileTest, AnArchiveIsItsOwnGolden) {
  const auto golden = OpenGolden(Testdata(kArchive));
  ASSERT_OK(golden);
  const auto archive = format::Archive::Open(Testdata(kArchive));
  ASSERT_OK(archive);
  const auto values = (*golden)->Values(0);
  const auto decoded = DecodeTensor(*archive, 0);
  ASSERT_OK(values);
  ASSERT_OK(decoded);
  EXPECT_EQ(*values, *decoded);
}

TEST(GoldenFileTest, RefusesItsInputAsTarget) {
  const TempFolder folder;
  const std::string path = folder.File("a.cact");
  tests::WriteFile(path, tests::ReadFile(Testdata(kArchive)));
  const auto archive = format::Archive::Open(path);
  ASSERT_OK(archive);
  EXPECT_THAT(WriteGolden(*archive, path),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("same file")));
}

TEST(GoldenFileTest, TheTokenizerHoldsNoNumbers) {
  const auto archive = format::Archive::Open(Testdata("fixture/cq2.cact"));
  ASSERT_OK(archive);
  const size_t last = archive->records().size() - 1;
  EXPECT_THAT(DecodeTensor(*archive, last),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("holds no numbers")));
  EXPECT_THAT(DecodeTensor(*archive, last + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("holds no numbers")));
}

}  // namespace
}  // namespace needle::verify
