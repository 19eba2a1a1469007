#include "quant/transpose.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/endian.h"
#include "base/half.h"
#include "gtest/gtest.h"
#include "quant/transpose_kernel.h"
#include "tests/quant/simd_targets.h"
#include "tests/support/float_values.h"

namespace needle::quant {
namespace {

constexpr uint32_t kTransposeSeed = 20240713;
constexpr SourceType kAllTypes[] = {SourceType::kF32, SourceType::kF16, SourceType::kBf16,
                                    SourceType::kF64};

// Random finite values, as bytes that start `skew` bytes into the result.
std::vector<uint8_t> RandomSource(size_t count, SourceType type, size_t skew, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(skew + count * SourceBytes(type));
  for (size_t i = 0; i < count; ++i) {
    uint8_t* at = bytes.data() + skew + i * SourceBytes(type);
    const auto bits = static_cast<uint32_t>(random());
    const float value = static_cast<float>(bits) * 0x1p-20F - 2048;
    if (type == SourceType::kF32) base::StoreLe(at, value);
    if (type == SourceType::kF64) base::StoreLe(at, static_cast<double>(bits) * 1e-9);
    if (type == SourceType::kF16) base::StoreLe(at, static_cast<uint16_t>(bits & 0xBBFF));
    if (type == SourceType::kBf16) base::StoreLe(at, base::Bf16FromF32(value));
  }
  return bytes;
}

TEST(TransposeTest, ColumnsOfATinyMatrixBecomeRows) {
  std::vector<uint8_t> source(6 * 4);
  for (size_t i = 0; i < 6; ++i) base::StoreLe(&source[4 * i], static_cast<float>(i));
  // [0 1 2; 3 4 5]: columns 1 and 2.
  std::vector<float> values(4);
  TransposeToF32(source, SourceType::kF32, 2, 3, 1, 2, values);
  EXPECT_EQ(values, (std::vector<float>{1, 4, 2, 5}));
}

TEST(TransposeTest, EveryTargetAndTypeGivesTheElementwiseResultAtAnyAlignment) {
  std::mt19937 random(kTransposeSeed);
  for (const SourceType type : kAllTypes) {
    for (int round = 0; round < 20; ++round) {
      const size_t rows = 1 + random() % 50;
      const size_t cols = 1 + random() % 50;
      const size_t first = random() % cols;
      const size_t count = random() % (cols - first + 1);
      const size_t skew = random() % 8;
      SCOPED_TRACE(testing::Message() << "seed " << kTransposeSeed << " round " << round << ": "
                                      << rows << " x " << cols << ", " << first << " + " << count);
      const auto bytes = RandomSource(rows * cols, type, skew, static_cast<uint32_t>(random()));
      const auto source = std::span(bytes).subspan(skew);
      std::vector<float> all(rows * cols);
      ConvertPortable(source, type, all);
      std::vector<float> want(count * rows);
      for (size_t c = 0; c < count; ++c) {
        for (size_t r = 0; r < rows; ++r) want[c * rows + r] = all[r * cols + first + c];
      }
      std::vector<float> values(want.size());
      const TransposeJob job = {source, type, rows, cols, first, count, values};
      TransposePortable(job);
      EXPECT_EQ(tests::FloatBits(values), tests::FloatBits(want));
      tests::ForEachSimdTarget([&] {
        std::fill(values.begin(), values.end(), -1.0F);
        TransposeSimd(job);
        EXPECT_EQ(tests::FloatBits(values), tests::FloatBits(want));
        std::vector<float> converted(all.size());
        ConvertSimd(source, type, converted);
        EXPECT_EQ(tests::FloatBits(converted), tests::FloatBits(all));
      });
    }
  }
}

TEST(ConvertTest, EveryF16AndBf16ThatIsNoNan) {
  std::vector<uint8_t> f16;
  std::vector<uint8_t> bf16;
  std::vector<uint32_t> want_f16;
  std::vector<uint32_t> want_bf16;
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto half = static_cast<uint16_t>(pattern);
    const uint8_t bytes[2] = {static_cast<uint8_t>(half & 0xFF), static_cast<uint8_t>(half >> 8)};
    if (base::IsFiniteF16(half) || (half & 0x3FF) == 0) {
      f16.insert(f16.end(), bytes, bytes + 2);
      want_f16.push_back(std::bit_cast<uint32_t>(base::F32FromF16(half)));
    }
    if (!std::isnan(base::F32FromBf16(half))) {
      bf16.insert(bf16.end(), bytes, bytes + 2);
      want_bf16.push_back(pattern << 16);
    }
  }
  tests::ForEachSimdTarget([&] {
    std::vector<float> values(want_f16.size());
    ConvertSimd(f16, SourceType::kF16, values);
    EXPECT_EQ(tests::FloatBits(values), want_f16);
    values.resize(want_bf16.size());
    ConvertSimd(bf16, SourceType::kBf16, values);
    EXPECT_EQ(tests::FloatBits(values), want_bf16);
  });
}

TEST(ConvertTest, F64RoundsToNearestEvenAndOverflowsToInfinity) {
  const std::vector<double> values = {1 + 0x1p-24, 1 + 0x1.8p-23, 1e300, -1e300, 1e-300};
  std::vector<uint8_t> bytes(values.size() * 8);
  for (size_t i = 0; i < values.size(); ++i) base::StoreLe(&bytes[8 * i], values[i]);
  std::vector<float> converted(values.size());
  ConvertToF32(bytes, SourceType::kF64, converted);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(converted, (std::vector<float>{1, 1 + 0x1p-22F, kInfinity, -kInfinity, 0}));
}

}  // namespace
}  // namespace needle::quant
