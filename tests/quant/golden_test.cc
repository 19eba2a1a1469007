// The reference's own archives, decoded and multiplied.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "format/archive.h"
#include "gtest/gtest.h"
#include "quant/encode.h"
#include "quant/kernel.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"

namespace needle::quant {
namespace {

using tests::GoldenTensors;

// "n3-odd/cq2": the files are golden/<name>.cact and so on.
class GoldenTest : public ::testing::TestWithParam<std::string> {
 protected:
  format::Archive Open() const {
    auto archive = format::Archive::Open(tests::Testdata("golden/" + GetParam() + ".cact"));
    EXPECT_OK(archive);
    return *std::move(archive);
  }
};

class GoldenDecodeTest : public GoldenTest {};
INSTANTIATE_TEST_SUITE_P(Archives, GoldenDecodeTest,
                         ::testing::Values("n3-odd/mixed", "n3-pad/cq2"));

// The largest distance of `decoded` from `want` in one row of `cols`, over the largest magnitude of
// the group it lies in.
double WorstOfRow(std::span<const float> decoded, std::span<const float> want, size_t group) {
  double worst = 0;
  for (size_t begin = 0; begin < want.size(); begin += group) {
    double largest = 0;
    double distance = 0;
    for (size_t i = begin; i < std::min(begin + group, want.size()); ++i) {
      largest = std::max(largest, static_cast<double>(std::fabs(want[i])));
      distance = std::max(distance, static_cast<double>(std::fabs(decoded[i] - want[i])));
    }
    if (distance > 0) worst = std::max(worst, distance / largest);
  }
  return worst;
}

TEST_P(GoldenDecodeTest, DecodesAsTheReference) {
  const format::Archive archive = Open();
  const GoldenTensors golden("golden/" + GetParam() + ".dequantised.safetensors");
  size_t compared = 0;
  for (size_t i = 0; i < archive.records().size(); ++i) {
    const format::TensorSpec& spec = archive.schema().tensors()[i];
    if (spec.dtype != format::DType::kCq) continue;
    const format::CqView view = archive.Cq(i);
    const auto codebook = CodebookFor(view);
    ASSERT_OK(codebook);
    const auto& want = golden.Floats(spec.name);
    std::vector<float> decoded(want.values.size());
    ASSERT_OK(DecodeRows(view, *codebook, 0, view.layout.rows, decoded)) << spec.name;
    const size_t cols = view.layout.cols;
    for (size_t row = 0; row < view.layout.rows; ++row) {
      // The reference rotates by a float32 matrix product: 128 products and sums in its order, ours
      // 7 additions. With terms of one size, rounding adds up like a random walk: sqrt(128) * 2^-24
      // = 7e-7 of the largest value; three times that is allowed.
      ASSERT_LE(WorstOfRow(std::span(decoded).subspan(row * cols, cols),
                           std::span(want.values).subspan(row * cols, cols), view.group),
                2e-6)
          << spec.name << " row " << row;
    }
    ++compared;
  }
  EXPECT_GE(compared, 20U);
}

class GoldenKernelTest : public GoldenTest {};
INSTANTIATE_TEST_SUITE_P(Archives, GoldenKernelTest,
                         ::testing::Values("n3-odd/binary", "n3-odd/cq2", "n3-odd/cq3",
                                           "n3-odd/mixed", "n3-odd/ternary", "n3-pad/cq2",
                                           "n3-small/cq2"));

double Norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

TEST_P(GoldenKernelTest, MultipliesAsTheReference) {
  const format::Archive archive = Open();
  const GoldenTensors golden("golden/" + GetParam() + ".kernel.safetensors");
  size_t compared = 0;
  for (const auto& [key, x] : golden.floats()) {
    if (!key.ends_with(".x")) continue;
    const std::string name = key.substr(0, key.size() - 2);
    const auto position = archive.schema().FindName(name);
    ASSERT_TRUE(position.has_value()) << name;
    const auto matrix = KernelMatrix::Make(archive.Cq(*position));
    ASSERT_OK(matrix);
    QuantizedActivations activations;
    activations.Assign(x.values, x.shape[0], x.shape[1], matrix->group());
    const auto& want = golden.Floats(name + ".y");
    std::vector<float> y(want.values.size());
    matrix->Multiply(activations, 0, matrix->rows(), y, matrix->rows());
    std::vector<float> difference(y.size());
    for (size_t i = 0; i < y.size(); ++i) difference[i] = y[i] - want.values[i];
    // Every integer dot is the reference's; each group's f32 product and sum then rounds 4 times,
    // and there are at most 8 groups a row: 12 * 2^-24 = 7e-7. One int8 value rounded the other way
    // would already show as about 1e-3 of a row's smallest dots.
    EXPECT_LE(Norm(difference), 7e-7 * Norm(want.values)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 4U);
}

}  // namespace
}  // namespace needle::quant
