#include "quant/pack.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace needle::quant {
namespace {

using format::Width;

std::vector<uint8_t> Packed(Width width, const std::vector<uint8_t>& codes) {
  std::vector<uint8_t> packed(codes.size() * format::StoredBits(width) / 8, 0xEE);
  PackRow(width, codes, packed);
  return packed;
}

TEST(PackTest, ExactBytesOfEveryWidth) {
  using Bytes = std::vector<uint8_t>;
  EXPECT_EQ(Packed(Width::kBinary, {1, 0, 0, 0, 0, 0, 1, 1}), (Bytes{0xC1}));
  EXPECT_EQ(Packed(Width::kCq2, {0, 1, 2, 3, 3, 0, 0, 1}), (Bytes{0xE4, 0x43}));
  // 8 indices in 3 bytes: 0b 111 110 101 100 011 010 001 000, LSB first.
  EXPECT_EQ(Packed(Width::kCq3, {0, 1, 2, 3, 4, 5, 6, 7}), (Bytes{0x88, 0xC6, 0xFA}));
  EXPECT_EQ(Packed(Width::kCq4, {1, 2, 3, 4, 5, 6, 7, 15}), (Bytes{0x21, 0x43, 0x65, 0xF7}));
  // -1, 0, +1 are crumbs 3, 0, 1.
  EXPECT_EQ(Packed(Width::kTernary, {0, 1, 2, 0, 2, 2, 1, 1}), (Bytes{0xD3, 0x05}));
}

TEST(PackTest, TernaryCrumbsSignExtendToTheWeight) {
  const std::vector<uint8_t> packed = Packed(Width::kTernary, {0, 1, 2, 1, 1, 1, 1, 1});
  for (int i = 0; i < 3; ++i) {
    const int crumb = (packed[0] >> (2 * i)) & 3;
    EXPECT_EQ(crumb >= 2 ? crumb - 4 : crumb, i - 1);
  }
}

TEST(PackTest, InvalidCrumbReadsAsZero) {
  std::vector<uint8_t> codes(8);
  UnpackRow(Width::kTernary, std::vector<uint8_t>{0xAA, 0x00}, codes);
  EXPECT_EQ(codes, std::vector<uint8_t>(8, 1));
}

TEST(PackTest, IndexOccupiesItsBitsOfTheStream) {
  std::mt19937 random(7);
  for (const Width width : format::kAllWidths) {
    const uint32_t bits = format::StoredBits(width);
    std::vector<uint8_t> codes(256);
    for (uint8_t& code : codes) {
      code = static_cast<uint8_t>(random() % format::NumLevels(width));
    }
    const std::vector<uint8_t> packed = Packed(width, codes);
    for (size_t k = 0; k < codes.size() && width != Width::kTernary; ++k) {
      uint32_t value = 0;
      for (uint32_t b = 0; b < bits; ++b) {
        const size_t bit = k * bits + b;
        value |= (static_cast<uint32_t>(packed[bit / 8] >> (bit % 8)) & 1U) << b;
      }
      ASSERT_EQ(value, codes[k]) << format::WidthName(width) << " " << k;
    }
    std::vector<uint8_t> unpacked(codes.size());
    UnpackRow(width, packed, unpacked);
    EXPECT_EQ(unpacked, codes) << format::WidthName(width);
  }
}

}  // namespace
}  // namespace needle::quant
