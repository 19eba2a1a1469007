#include "converter/calibrate/target_size.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace needle::calibrate {
namespace {

TEST(ParseTargetSizeTest, ReadsUnitsAsDdDoes) {
  const std::pair<std::string_view, uint64_t> cases[] = {
      {"720896", 720896},  {"1", 1},           {"5B", 5},          {"700K", 716800},
      {"700KiB", 716800},  {"700kB", 700000},  {"700KB", 700000},  {"1.5M", 1572864},
      {"1.5MiB", 1572864}, {"1.5MB", 1500000}, {"2G", 2147483648}, {"2GB", 2000000000},
      {"0.0015K", 1},
  };
  for (const auto& [text, bytes] : cases) {
    const auto parsed = ParseTargetSize(text);
    ASSERT_OK(parsed) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ParseTargetSizeTest, RefusesAllElse) {
  for (const std::string_view text :
       {"", "0", "K", "-1", "+1", "1e6", "1.2.3", "700 K", "700k", "700kiB", "700T", "700Ki",
        "700KiBs", "0x10", "nan", "inf", "99999999999G", " 1", "."}) {
    EXPECT_THAT(ParseTargetSize(text),
                tests::StatusIs(absl::StatusCode::kInvalidArgument,
                                ::testing::HasSubstr("'" + std::string(text) + "'")))
        << text;
  }
}

}  // namespace
}  // namespace needle::calibrate
