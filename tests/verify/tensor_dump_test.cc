#include "converter/verify/tensor_dump.h"

#include <optional>

#include "base/endian.h"
#include "base/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"

namespace needle::verify {
namespace {

using ::testing::HasSubstr;
using tests::StatusIs;

std::string Csv(const DumpedArray& array) {
  std::string text;
  WriteCsv(array, [&](std::string_view line) { text += line; });
  return text;
}

template <typename T>
DumpedArray Array(ArrayType type, std::vector<uint64_t> shape, const std::vector<T>& values) {
  const auto bytes = BytesOf(std::span<const T>(values));
  return {{"x", type, std::move(shape)}, {bytes.begin(), bytes.end()}};
}

TEST(TensorDumpTest, CsvHasALineARowAndShortestNumbers) {
  EXPECT_EQ(Csv(Array<float>(ArrayType::kF32, {2, 2}, {0.1F, -0.0F, 1e-20F, 3})),
            "0.1,-0\n1e-20,3\n");
  EXPECT_EQ(Csv(Array<uint16_t>(ArrayType::kF16, {3}, {0x3C00, 0x7BFF, 0x0001})),
            "1,65504,5.9604645e-08\n");
  EXPECT_EQ(Csv(Array<uint8_t>(ArrayType::kU8, {2, 1}, {3, 255})), "3\n255\n");
  EXPECT_EQ(Csv(Array<float>(ArrayType::kF32, {}, {7})), "7\n");
  EXPECT_EQ(Csv(Array<float>(ArrayType::kF32, {0}, {})), "");
}

class DumpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = format::Archive::Open(tests::Testdata("golden/n3-odd/mixed.cact"));
    ASSERT_OK(opened);
    archive_ = *std::move(opened);
  }
  std::optional<format::Archive> archive_;
};

// Indices and norms give the decoded values: w = (c[index] * norm) H, and H keeps squares.
TEST_F(DumpTest, IndicesAndNormsMakeTheValues) {
  const std::string name = "embedding";
  const auto indices = DumpTensor(*archive_, name, DumpPart::kIndices);
  const auto norms = DumpTensor(*archive_, name, DumpPart::kNorms);
  const auto values = DumpTensor(*archive_, name, DumpPart::kValues);
  ASSERT_OK(indices);
  ASSERT_OK(norms);
  ASSERT_OK(values);
  const format::CqView view = archive_->Cq(0);
  EXPECT_THAT(indices->spec.shape,
              ::testing::ElementsAre(view.layout.rows, view.layout.padded_cols));
  EXPECT_THAT(norms->spec.shape, ::testing::ElementsAre(view.layout.rows, view.layout.groups));
  ASSERT_EQ(view.layout.cols, 128U);  // one whole group a row: no padding to leave out
  for (uint64_t row = 0; row < view.layout.rows; ++row) {
    const uint16_t bits = base::LoadLe<uint16_t>(&norms->bytes[row * 2]);
    const double norm = static_cast<double>(base::F32FromF16(bits));
    double packed = 0, decoded = 0;
    for (uint64_t col = 0; col < 128; ++col) {
      const double entry =
          static_cast<double>(view.codebook[indices->bytes[row * 128 + col]]) * norm;
      const double value =
          static_cast<double>(base::LoadLe<float>(&values->bytes[(row * 128 + col) * 4]));
      packed += entry * entry;
      decoded += value * value;
    }
    // Seven butterfly stages and two products in f32, each within 2^-24 of its result.
    EXPECT_NEAR(packed, decoded, packed * 2 * 9 * 6e-8) << "row " << row;
  }
}

TEST_F(DumpTest, RefusesWhatIsNotThere) {
  EXPECT_THAT(DumpTensor(*archive_, "layer00.q_porj", DumpPart::kValues),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no tensor layer00.q_porj")));
  EXPECT_THAT(DumpTensor(*archive_, "layer00.norm_in", DumpPart::kIndices),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not quantised")));
}

TEST_F(DumpTest, WritesTheFormThatTheNameSays) {
  const tests::TempFolder folder;
  const auto norms = DumpTensor(*archive_, "embedding", DumpPart::kNorms);
  ASSERT_OK(norms);
  ASSERT_OK(WriteDump(*norms, folder.File("n.csv"), archive_->path()));
  EXPECT_EQ(tests::ReadFile(folder.File("n.csv")), Csv(*norms));
  ASSERT_OK(WriteDump(*norms, folder.File("n.npy"), archive_->path()));
  EXPECT_THAT(tests::ReadFile(folder.File("n.npy")), HasSubstr("'<f2'"));
  EXPECT_THAT(WriteDump(*norms, archive_->path(), archive_->path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("same file")));
}

}  // namespace
}  // namespace needle::verify
