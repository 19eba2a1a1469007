// The vectorised decoder gives the portable one's bits on every instruction set.
#include <bit>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "quant/decode_kernel.h"
#include "tests/quant/simd_targets.h"

namespace needle::quant {
namespace {

using format::Width;

constexpr uint32_t kDecodeSeed = 20240714;

using DecodeKernel = void (*)(const DecodeJob&, std::span<uint8_t>, std::span<float>);

std::vector<uint32_t> DecodedBits(DecodeKernel kernel, const DecodeJob& job, size_t values) {
  std::vector<uint8_t> patterns(values);
  std::vector<float> padded(values);
  kernel(job, patterns, padded);
  std::vector<uint32_t> bits;
  for (const float value : padded) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

TEST(DecodeTwinsTest, AnyBytesOfEveryWidth) {
  std::mt19937 random(kDecodeSeed);
  for (const Width width : format::kAllWidths) {
    for (size_t groups = 1; groups <= 9; ++groups) {
      std::vector<uint8_t> packed(groups * 16 * format::StoredBits(width));
      for (uint8_t& byte : packed) byte = static_cast<uint8_t>(random());
      std::vector<uint8_t> norms(groups * 2);
      for (uint8_t& byte : norms) byte = static_cast<uint8_t>(random() % 0x7C);
      DecodeJob job;
      job.packed = packed;
      job.norms = norms;
      job.width = width;
      job.group = 128;
      job.entries = EntriesByPattern(Codebook::Standard(width));
      const auto want = DecodedBits(DecodeRowPortable, job, groups * 128);
      tests::ForEachSimdTarget(
          [&] { EXPECT_EQ(DecodedBits(DecodeRowSimd, job, groups * 128), want) << groups; });
    }
  }
}

}  // namespace
}  // namespace needle::quant
