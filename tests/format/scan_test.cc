#include "format/scan.h"

#include <cstdint>
#include <vector>

#include "base/endian.h"
#include "base/half.h"
#include "gtest/gtest.h"

namespace needle::format {
namespace {

// Sizes around the scans' words and blocks.
constexpr size_t kSizes[] = {4, 8, 12, 20, 4096, 4100, 8192, 9000};

TEST(ScanTest, FindsEveryNonFiniteF16PatternAndNoOther) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    std::vector<uint8_t> bytes(8 * 2, 0xFF);
    for (size_t i = 0; i < 8; ++i) base::StoreLe(&bytes[2 * i], uint16_t{0xFBFF});  // -65504
    base::StoreLe(&bytes[2 * 5], half);
    EXPECT_EQ(FindNonFiniteF16(bytes).has_value(), !base::IsFiniteF16(half)) << bits;
  }
}

TEST(ScanTest, NamesTheFirstF16WhereverItIs) {
  for (const size_t size : kSizes) {
    std::vector<uint8_t> bytes(size, 0x7B);
    EXPECT_EQ(FindNonFiniteF16(bytes), std::nullopt);
    for (size_t i = size / 2; i-- > 0;) {
      base::StoreLe(&bytes[2 * i], uint16_t{0x7C00});
      ASSERT_EQ(FindNonFiniteF16(bytes), i) << size;
    }
  }
}

TEST(ScanTest, NamesTheFirstF32WhereverItIs) {
  for (const size_t size : kSizes) {
    std::vector<uint8_t> bytes(size, 0x7F);  // 3.39e38
    for (size_t i = 0; i < size; i += 4) base::StoreLe(&bytes[i], uint32_t{0xFF7FFFFF});
    EXPECT_EQ(FindNonFiniteF32(bytes), std::nullopt);
    for (size_t i = size / 4; i-- > 0;) {
      base::StoreLe(&bytes[4 * i], uint32_t{0xFF800000});
      ASSERT_EQ(FindNonFiniteF32(bytes), i) << size;
    }
  }
}

TEST(ScanTest, FindsCrumb2InEveryPlaceAndNoOtherCrumb) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    bool has_two = false;
    for (uint32_t place = 0; place < 8; place += 2) has_two |= ((byte >> place) & 3) == 2;
    for (const size_t at : {size_t{0}, size_t{7}, size_t{8}, size_t{12}}) {
      std::vector<uint8_t> packed(13, 0xFF);
      packed[at] = static_cast<uint8_t>(byte);
      EXPECT_EQ(FindInvalidCrumb(packed), has_two ? std::optional<size_t>(at) : std::nullopt)
          << byte;
    }
  }
}

TEST(ScanTest, FindsTheFirstByteThatIsNotZero) {
  std::vector<uint8_t> bytes(63, 0);
  EXPECT_EQ(FindNonZero(bytes), std::nullopt);
  EXPECT_EQ(FindNonZero({}), std::nullopt);
  for (size_t i = bytes.size(); i-- > 0;) {
    bytes[i] = 0x80;
    EXPECT_EQ(FindNonZero(bytes), i);
  }
}

}  // namespace
}  // namespace needle::format
