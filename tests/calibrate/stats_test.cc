#include <filesystem>

#include "converter/calibrate/calibrate.h"
#include "converter/calibrate/stats_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/calibrate/calibration_fixture.h"
#include "tests/calibrate/random_values.h"

namespace needle::calibrate {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using tests::BuildBytes;
using tests::kScheme;
using tests::SmallPlan;

class StatsTest : public testing::Test {
 protected:
  absl::StatusOr<Calibration> CalibrateSmall(Recipe recipe, const std::string& bit_map,
                                             size_t examples, bool with_stats = true) {
    CalibrateOptions options;
    options.recipe = recipe;
    options.data = tests::FirstExamples(folder_, examples);
    if (with_stats) options.stats = path_;
    options.threads = 2;
    return Calibrate(SmallPlan(bit_map), options);
  }
  std::string Bytes(Recipe recipe, const std::string& bit_map, bool with_stats) {
    const auto calibration = CalibrateSmall(recipe, bit_map, 9, with_stats);
    EXPECT_TRUE(calibration.ok()) << calibration.status();
    return BuildBytes(*SmallPlan(bit_map), *calibration, folder_);
  }

  tests::TempFolder folder_;
  std::string path_ = folder_.File("stats.bin");
};

TEST_F(StatsTest, SavedMomentsGiveTheSameArchive) {
  const std::string without = Bytes(Recipe::kBest, kScheme, false);
  EXPECT_EQ(Bytes(Recipe::kBest, kScheme, true), without);
  ASSERT_TRUE(std::filesystem::exists(path_));
  const std::string saved = tests::ReadFile(path_);
  EXPECT_EQ(Bytes(Recipe::kBest, kScheme, true), without);
  EXPECT_EQ(tests::ReadFile(path_), saved);
}

TEST_F(StatsTest, InputsOfTheFloatModelServeEveryWidth) {
  ASSERT_TRUE(CalibrateSmall(Recipe::kGptq, kScheme, 9).ok());
  EXPECT_EQ(Bytes(Recipe::kGptq, "default=3", true), Bytes(Recipe::kGptq, "default=3", false));
}

TEST_F(StatsTest, OtherTextAndOtherWidthsAreRefusedByName) {
  ASSERT_TRUE(CalibrateSmall(Recipe::kBest, kScheme, 9).ok());
  EXPECT_THAT(CalibrateSmall(Recipe::kBest, kScheme, 10).status().message(),
              AllOf(HasSubstr("stats.bin"), HasSubstr("data is"), HasSubstr("want")));
  EXPECT_THAT(
      CalibrateSmall(Recipe::kBest, "default=3", 9).status().message(),
      AllOf(HasSubstr("widths is"), HasSubstr("layer00.q_proj=2"), HasSubstr("layer00.q_proj=3")));
  EXPECT_THAT(CalibrateSmall(Recipe::kGptq, kScheme, 9).status().message(), HasSubstr("inputs is"));
}

TEST_F(StatsTest, CutAndForeignFilesAreRefused) {
  const base::Json key = {{"a", 1}};
  {
    auto file = StatsFile::Open(path_, key);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE(file->Start(base::Json()).ok());
    ASSERT_TRUE(file->Add("x", tests::RandomMoments(9, 1), true).ok());
    ASSERT_TRUE(file->Add("y", tests::GaussianMatrix(9, 9, 2), false).ok());
    ASSERT_TRUE(file->Finish().ok());
  }
  const auto whole = StatsFile::Open(path_, key);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(
      std::ranges::equal(whole->Find("x", 9, true)->values(), tests::RandomMoments(9, 1).values()));
  EXPECT_TRUE(std::ranges::equal(whole->Find("y", 9, false)->values(),
                                 tests::GaussianMatrix(9, 9, 2).values()));
  EXPECT_THAT(whole->Find("z", 9, true).status().message(), HasSubstr("missing"));
  EXPECT_THAT(whole->Find("x", 8, true).status().message(), HasSubstr("9 channels, want 8"));
  const std::string bytes = tests::ReadFile(path_);
  const size_t sections = bytes.find('x') - 4;
  for (size_t length = 0; length < bytes.size(); ++length) {
    tests::WriteFile(path_, bytes.substr(0, length));
    // A file that ends between two sections is found out when a section is asked for.
    const auto cut = StatsFile::Open(path_, key);
    if (cut.ok()) {
      EXPECT_FALSE(cut->Find("y", 9, false).ok()) << length;
      EXPECT_GE(length, sections);
    }
  }
  tests::WriteFile(path_, bytes);
  EXPECT_THAT(StatsFile::Open(path_, {{"a", 2}, {"b", 3}}).status().message(),
              AllOf(HasSubstr("a is 1, want 2"), HasSubstr("b is nothing, want 3")));
}

}  // namespace
}  // namespace needle::calibrate
