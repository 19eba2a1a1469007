// Recipes on the command line: what they build passes every check that the program itself offers.
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/cli/samples.h"

namespace needle::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CalibrationTest : public CommandTest {
 protected:
  const std::string checkpoint_ = Testdata(kFixtureCheckpoint);
  const std::string archive_ = File("tuned.cact");
};

TEST_F(CalibrationTest, BestPassesItsOwnVerificationVerifyAndReport) {
  const base::Json json = Expect(0, {"build", checkpoint_, "--bits", "2", "--calibrate",
                                     FewExamples(32), "-o", archive_, "--json"})
                              .Json();
  EXPECT_EQ(json["calibration"]["recipe"], "best");
  for (const base::Json& check : json["verification"]["comparisons"][0]["tensors"]) {
    EXPECT_EQ(check["match"], "identical") << check["name"];
  }
  const ProgramResult verify = Expect(0, {"verify", archive_, "--against", checkpoint_});
  EXPECT_THAT(verify.out, HasSubstr("further from the weights than rounding is"));
  Expect(0, {"report", archive_, "--against", checkpoint_, "-o", File("report.html")});
  // A limit that is asked for holds.
  Expect(4, {"verify", archive_, "--against", checkpoint_, "--max-tensor-ratio", "4"});
  // A model that is not its source, though every tensor has the shape of one of its own.
  Expect(0, {"slice", archive_, "--layers", "5", "-o", File("five.cact")});
  const ProgramResult other =
      Expect(4, {"verify", File("five.cact"), "--against", checkpoint_, "--layers", "4"});
  EXPECT_THAT(other.out, HasSubstr("FAILED"));
}

// Plain rounding to one bit ruins the model: the build says so, quiet or not.
TEST_F(CalibrationTest, QuietBuildsTellWhatFailed) {
  const ProgramResult result =
      Expect(4, {"build", checkpoint_, "--bits", "1", "-o", archive_, "-q"});
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("error: mean KL "), HasSubstr("want at most 0.5")));
}

TEST_F(CalibrationTest, OtherRecipesPassToo) {
  for (const char* recipe : {"gptq", "search"}) {
    std::vector<std::string> build = {"build", checkpoint_, "--bits", "2",  "--layers",
                                      "5",     "--recipe",  recipe,   "-o", archive_};
    if (recipe == std::string("gptq")) {
      build.insert(build.end(), {"--calibrate", FewExamples()});
    }
    Expect(0, build);
    Expect(0, {"verify", archive_, "--against", checkpoint_, "--layers", "5"});
  }
}

TEST_F(CalibrationTest, SavedStatisticsGiveTheSameBytes) {
  const std::vector<std::string> build = {"build",   checkpoint_,   "--layers",    "2",  "--stats",
                                          File("s"), "--calibrate", FewExamples(), "-o", archive_};
  Expect(0, build);
  const std::string first = ReadFile(archive_);
  const std::string stats = ReadFile(File("s"));
  Expect(0, build);
  EXPECT_TRUE(ReadFile(archive_) == first);
  EXPECT_TRUE(ReadFile(File("s")) == stats);
}

// Options that do not go together: one error, exit status 2, nothing written.
TEST_F(CalibrationTest, WhatIsMissingIsNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--recipe", "best"}, "--calibrate"},
      {{"--recipe", "gptq"}, "--calibrate"},
      {{"--recipe", "worst"}, "worst"},
      {{"--stats", File("s")}, "--calibrate"},
      {{"--recipe", "search", "--calibrate", FewExamples()}, "search"},
  };
  for (const auto& [options, text] : cases) {
    std::vector<std::string> build = {"build", checkpoint_, "-o", archive_};
    build.insert(build.end(), options.begin(), options.end());
    EXPECT_THAT(Expect(2, build).err, HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(archive_));
  }
}

}  // namespace
}  // namespace needle::tests
