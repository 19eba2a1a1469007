// Recipes on the command line: what they build passes every check that the program itself offers.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/cli/samples.h"
#include "tests/support/examples.h"
#include "tests/support/outliers.h"

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
                                     FirstExamples(folder_, 32), "-o", archive_, "--json"})
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

// Models that were not trained: norms of a corrected matrix then follow the weights least.
TEST_F(CalibrationTest, RandomModelsPassToo) {
  for (const char* model : {"golden/n3-small", "golden/n2-small"}) {
    const std::string checkpoint = Testdata(absl::StrCat(model, "/checkpoint.safetensors"));
    const std::string tokenizer = Testdata(kFixtureTokenizer);
    Expect(0, {"build", checkpoint, "--tokenizer", tokenizer, "--bits", "2", "--calibrate",
               FirstExamples(folder_, 40), "-o", archive_});
    Expect(0, {"verify", archive_, "--against", checkpoint, "--tokenizer", tokenizer});
  }
}

// Ten channels of each attention input are 25 times larger than the others.
TEST_F(CalibrationTest, RebalancingSavesAModelWithOutliers) {
  const std::string outliers = WriteOutliersCheckpoint(folder_);
  const auto kl_mean = [](const base::Json& json) {
    return json["verification"]["forward"]["kl_mean"].get<double>();
  };
  std::vector<std::string> build = {"build", outliers, "-o", archive_, "--json"};
  const double plain = kl_mean(RunProgram(build).Json());
  build.emplace_back("--rebalance");
  const base::Json json = Expect(0, build).Json();
  EXPECT_EQ(json["rebalanced"]["layers"], 6);
  EXPECT_LT(10 * kl_mean(json), plain);
  EXPECT_THAT(Expect(0, {"build", outliers, "--rebalance", "--dry-run"}).out,
              HasSubstr("rebalanced: attention inputs of 6 layers"));

  Expect(0, {"verify", archive_, "--against", outliers, "--rebalance"});
  Expect(0, {"report", archive_, "--against", outliers, "--rebalance", "-o", File("r.html")});
  EXPECT_THAT(Expect(4, {"verify", archive_, "--against", outliers}).out,
              HasSubstr("failure: layer00.norm_in"));
  EXPECT_THAT(Expect(2, {"run", archive_, "hello", "--rebalance"}).err,
              HasSubstr("are for checkpoints"));
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
      build.insert(build.end(), {"--calibrate", FirstExamples(folder_, 16)});
    }
    Expect(0, build);
    Expect(0, {"verify", archive_, "--against", checkpoint_, "--layers", "5"});
  }
}

TEST_F(CalibrationTest, SavedStatisticsGiveTheSameBytes) {
  const std::vector<std::string> build = {
      "build",   checkpoint_, "--layers",    "2",
      "--stats", File("s"),   "--calibrate", FirstExamples(folder_, 16),
      "-o",      archive_};
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
      {{"--recipe", "search", "--calibrate", FirstExamples(folder_, 16)}, "search"},
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
