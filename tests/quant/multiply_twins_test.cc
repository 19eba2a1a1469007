// Integer products: exact dots, and the same bits from every twin and every split of rows.
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "base/half.h"
#include "gtest/gtest.h"
#include "quant/encode.h"
#include "quant/kernel.h"
#include "quant/multiply_kernel.h"
#include "quant/pack.h"
#include "tests/quant/simd_targets.h"
#include "tests/support/float_values.h"
#include "tests/support/status_matchers.h"

namespace needle::quant {
namespace {

using format::Width;

constexpr uint32_t kSeed = 20240712;

// A matrix of random indices and norms, in exactly as many bytes as it needs (a read past them is a
// sanitizer's find).
class RandomMatrix {
 public:
  RandomMatrix(size_t rows, size_t cols, Width width, uint32_t group, uint32_t seed) {
    std::mt19937 random(seed);
    view_.width = width;
    view_.group = group;
    view_.layout = *format::CqLayout::Make(rows, cols, group, width);
    std::vector<uint8_t> codes(rows * view_.layout.padded_cols);
    for (uint8_t& code : codes) {
      code = static_cast<uint8_t>(random() % format::NumLevels(width));
    }
    indices_.resize(view_.layout.norms_offset);
    PackRow(width, codes, indices_);
    for (size_t i = 0; i < rows * view_.layout.groups; ++i) {
      const auto norm = base::F16FromF32(static_cast<float>(random() % 1000) * 0.01F);
      norms_.push_back(static_cast<uint8_t>(norm & 0xFF));
      norms_.push_back(static_cast<uint8_t>(norm >> 8));
    }
    view_.indices = indices_;
    view_.norms = norms_;
    const auto stored = StoredCodebooks(CodebookKind::kReference);
    codebook_ = *Codebook::Make(width, group, stored);
    if (width != Width::kTernary && width != Width::kBinary) view_.codebook = codebook_.entries();
    matrix_ = *KernelMatrix::Make(view_);
  }
  RandomMatrix(const RandomMatrix&) = delete;
  RandomMatrix& operator=(const RandomMatrix&) = delete;

  const KernelMatrix& matrix() const { return matrix_; }
  const Codebook& codebook() const { return codebook_; }

  // ci of weight [row, column], from the specification: round(c / (max|c| / 127)).
  std::vector<int32_t> Entries(size_t row) const {
    std::vector<uint8_t> codes(view_.layout.padded_cols);
    UnpackRow(view_.width,
              view_.indices.subspan(row * view_.layout.row_bytes, view_.layout.row_bytes), codes);
    const auto c = codebook_.entries();
    const float largest = std::max(std::fabs(c.front()), std::fabs(c.back()));
    const float scale = largest / 127.0F;
    std::vector<int32_t> entries;
    for (const uint8_t code : codes) {
      entries.push_back(static_cast<int32_t>(std::lrint(c[code] / scale)));
    }
    return entries;
  }

 private:
  format::CqView view_;
  std::vector<uint8_t> indices_;
  std::vector<uint8_t> norms_;
  Codebook codebook_;
  KernelMatrix matrix_;
};

QuantizedActivations RandomActivations(size_t count, size_t cols, uint32_t group, uint32_t seed) {
  QuantizedActivations x;
  x.Assign(tests::GaussianFloats(count * cols, seed), count, cols, group);
  return x;
}

using MultiplyKernel = void (*)(const MultiplyJob&);

std::vector<uint32_t> Bits(MultiplyKernel kernel, const KernelMatrix& matrix,
                           const QuantizedActivations& x, size_t first, size_t count) {
  std::vector<float> y(x.count() * matrix.rows(), -1.0F);  // -1: not written
  kernel({&matrix, &x, first, count, y, matrix.rows()});
  std::vector<uint32_t> bits;
  for (const float value : y) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

class MultiplyTwinsTest : public ::testing::TestWithParam<Width> {};
INSTANTIATE_TEST_SUITE_P(Widths, MultiplyTwinsTest, ::testing::ValuesIn(format::kAllWidths));

TEST_P(MultiplyTwinsTest, GroupDotsAreThePlainIntegerSums) {
  const RandomMatrix random(7, 300, GetParam(), 128, kSeed);
  const QuantizedActivations x = RandomActivations(3, 300, 128, kSeed);
  for (size_t row = 0; row < 7; ++row) {
    const std::vector<int32_t> entries = random.Entries(row);
    for (size_t v = 0; v < 3; ++v) {
      std::vector<int32_t> dots(3);
      random.matrix().GroupDots(x, v, row, dots);
      for (size_t group = 0; group < 3; ++group) {
        int32_t want = 0;
        for (size_t i = group * 128; i < (group + 1) * 128; ++i) {
          want += entries[i] * x.values(v)[i];
        }
        EXPECT_EQ(dots[group], want);
      }
    }
  }
}

TEST_P(MultiplyTwinsTest, SameBitsOnEveryInstructionSet) {
  std::mt19937 random(kSeed);
  for (int round = 0; round < 12; ++round) {
    const size_t rows = 1 + random() % 40;
    const size_t cols = 1 + random() % 1100;
    const size_t count = round % 4 == 0 ? 1 : 1 + random() % 150;
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " round " << round << ": " << rows
                                    << " x " << cols << ", " << count << " vectors");
    const RandomMatrix matrix(rows, cols, GetParam(), 128, static_cast<uint32_t>(random()));
    const auto x = RandomActivations(count, cols, 128, static_cast<uint32_t>(random()));
    const auto want = Bits(MultiplyPortable, matrix.matrix(), x, 0, rows);
    tests::ForEachSimdTarget(
        [&] { EXPECT_EQ(Bits(MultiplySimd, matrix.matrix(), x, 0, rows), want); });
    if (HasVnni()) {
      EXPECT_EQ(Bits(MultiplyVnni, matrix.matrix(), x, 0, rows), want) << "VNNI";
    }
  }
}

TEST_P(MultiplyTwinsTest, SplitsOfRowsChangeNothingAndWriteOnlyTheirOwn) {
  const RandomMatrix matrix(29, 384, GetParam(), 128, kSeed);
  const QuantizedActivations x = RandomActivations(5, 384, 128, kSeed);
  const auto whole = Bits(MultiplyPortable, matrix.matrix(), x, 0, 29);
  std::vector<MultiplyKernel> kernels = {MultiplyPortable, MultiplySimd};
  if (HasVnni()) kernels.push_back(MultiplyVnni);
  for (const MultiplyKernel kernel : kernels) {
    for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 3}, {3, 9}, {13, 16}, {7, 0}}) {
      const auto part = Bits(kernel, matrix.matrix(), x, first, count);
      for (size_t i = 0; i < part.size(); ++i) {
        const bool inside = i % 29 >= first && i % 29 < first + count;
        EXPECT_EQ(part[i], inside ? whole[i] : std::bit_cast<uint32_t>(-1.0F)) << i;
      }
    }
  }
}

TEST_P(MultiplyTwinsTest, OtherGroupsMultiplyToo) {
  const RandomMatrix matrix(5, 70, GetParam(), 32, kSeed);
  const QuantizedActivations x = RandomActivations(2, 70, 32, kSeed);
  std::vector<float> y(2 * 5);
  matrix.matrix().Multiply(x, 0, 5, y, 5);
  const auto want = Bits(MultiplyPortable, matrix.matrix(), x, 0, 5);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::bit_cast<uint32_t>(y[i]), want[i]);
}

TEST_P(MultiplyTwinsTest, ProductsApproachTheFloatOnes) {
  const RandomMatrix matrix(16, 256, GetParam(), 128, kSeed);
  const std::vector<float> input = tests::GaussianFloats(256, kSeed);
  QuantizedActivations x;
  x.Assign(input, 1, 256, 128);
  std::vector<float> y(16);
  matrix.matrix().Multiply(x, 0, 16, y, 16);
  std::vector<float> weights(16 * 256);
  ASSERT_OK(DecodeRows(matrix.matrix().view(), matrix.codebook(), 0, 16, weights));
  double error = 0;
  double squares = 0;
  for (size_t row = 0; row < 16; ++row) {
    double want = 0;
    for (size_t i = 0; i < 256; ++i) {
      want += static_cast<double>(weights[row * 256 + i]) * static_cast<double>(input[i]);
    }
    const double difference = static_cast<double>(y[row]) - want;
    error += difference * difference;
    squares += want * want;
  }
  // Rounding to 1/127 of the largest of 128 values (about 3 standard deviations) leaves an error of
  // 3/127/sqrt(12) = 0.7 % a value, and that of the entries is alike: 1 % in all; three times that.
  EXPECT_LE(std::sqrt(error / squares), 0.03);
}

TEST(QuantizedActivationsTest, FollowsTheSpecification) {
  // Group 8; the weights rotate to 8/sqrt(8) everywhere: all at the largest value.
  QuantizedActivations x;
  x.Assign(std::vector<float>{8, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1, 10, 8);
  EXPECT_EQ(x.padded_cols(), 16U);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(x.values(0)[i], 127);
  for (size_t i = 8; i < 16; ++i) EXPECT_EQ(x.values(0)[i], 0);
  EXPECT_EQ(x.scales(0)[0], 8 * static_cast<float>(1 / std::sqrt(8.0)) / 127);
  EXPECT_EQ(x.scales(0)[1], 1.0F);  // all zero
}

TEST(QuantizedActivationsTest, SameBitsOnEveryInstructionSet) {
  for (int exponent = -149; exponent < 120; exponent += 7) {
    std::vector<float> x = tests::GaussianFloats(3 * 300, kSeed);
    for (float& value : x) value = std::ldexp(value, exponent);
    const auto run = [&](void (*kernel)(const QuantizeJob&)) {
      std::vector<int8_t> values(3 * 384);
      std::vector<float> scales(9);
      kernel({x, 3, 300, 128, values, scales});
      std::vector<uint32_t> bits(values.begin(), values.end());
      for (const float scale : scales) bits.push_back(std::bit_cast<uint32_t>(scale));
      return bits;
    };
    const std::vector<uint32_t> want = run(QuantizePortable);
    tests::ForEachSimdTarget([&] { EXPECT_EQ(run(QuantizeSimd), want) << exponent; });
  }
}

}  // namespace
}  // namespace needle::quant
