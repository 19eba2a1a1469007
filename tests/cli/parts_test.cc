// Exit codes, tables, command lines: the parts of cli/ that need no process.
#include <limits>

#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/text_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace needle::cli {
namespace {

using ::testing::HasSubstr;
using tests::StatusIs;

TEST(ExitCodeTest, EachStatusHasItsCode) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), ExitCode::kDone);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeFor(absl::NotFoundError("")), ExitCode::kInputRefused);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("")), ExitCode::kInputRefused);
  EXPECT_EQ(ExitCodeFor(absl::UnimplementedError("")), ExitCode::kInputRefused);
  EXPECT_EQ(ExitCodeFor(absl::FailedPreconditionError("")), ExitCode::kInputRefused);
  EXPECT_EQ(ExitCodeFor(absl::CancelledError("")), ExitCode::kInterrupted);
  EXPECT_EQ(ExitCodeFor(absl::ResourceExhaustedError("")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeFor(absl::InternalError("")), ExitCode::kFailed);
}

TEST(TextTableTest, AlignsByCodePoints) {
  TextTable table({"name", ">bytes"});
  table.AddRow({"caf\xC3\xA9", "7"});
  table.AddRow({"x", "1234567"});
  EXPECT_EQ(table.Text(), "name    bytes\ncaf\xC3\xA9        7\nx     1234567\n");
}

TEST(TextTableTest, BytesChooseTheirUnit) {
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1000), "1 kB");
  EXPECT_EQ(BytesText(999'499), "999 kB");
  EXPECT_EQ(BytesText(999'500), "1.00 MB");
  EXPECT_EQ(BytesText(29'900'800), "29.90 MB");
  EXPECT_EQ(BytesText(2'500'000'000), "2.50 GB");
}

TEST(TextTableTest, MissingErrorIsADash) {
  EXPECT_EQ(ErrorText(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(ErrorText(0.117432), "0.1174");
}

// A command with an option of each kind.
struct Sample {
  Command command{CommandSpec{.name = "sample", .summary = "s", .description = "d"}};
  std::string file, codebook;
  std::optional<uint64_t> layers;
  std::vector<std::string> adapters;
  bool strict = false;
  double temperature = 0;
  Sample() {
    command.Add({.names = "file", .value = "FILE", .required = true}, &file);
    command.Add({.names = "--codebook", .value = "reference|analytic"}, &codebook);
    command.Add({.names = "--layers", .value = "N", .min = 2, .max = 64}, &layers);
    command.Add({.names = "--lora", .value = "FILE"}, &adapters);
    command.Add({.names = "-s,--strict"}, &strict);
    command.Add({.names = "--temperature", .value = "T"}, &temperature);
    command.Exclude("--layers", "--lora");
    command.Need("--temperature", "--strict");
  }
};

TEST(CommandLineTest, ReadsEveryKind) {
  Sample sample;
  ASSERT_OK(sample.command.Parse(
      {"--lora", "a", "in", "--lora=b", "-s", "--codebook", "analytic", "--temperature", "0.5"}));
  EXPECT_EQ(sample.file, "in");
  EXPECT_EQ(sample.codebook, "analytic");
  EXPECT_THAT(sample.adapters, ::testing::ElementsAre("a", "b"));
  EXPECT_TRUE(sample.strict);
  EXPECT_EQ(sample.temperature, 0.5);
  EXPECT_FALSE(sample.layers.has_value());
}

TEST(CommandLineTest, TakesADashAndWhatFollowsTwoDashesAsArguments) {
  Sample dash, after;
  ASSERT_OK(dash.command.Parse({"-"}));
  EXPECT_EQ(dash.file, "-");
  ASSERT_OK(after.command.Parse({"--", "--strict"}));
  EXPECT_EQ(after.file, "--strict");
  EXPECT_FALSE(after.strict);
}

TEST(CommandLineTest, RefusesWhatCannotBe) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "file is missing"},
      {{"a", "b"}, "unexpected argument 'b'"},
      {{"a", "--layer", "3"}, "unknown option --layer; did you mean --layers?"},
      {{"a", "--layers=1"}, "--layers: '1', want a whole number from 2 to 64"},
      {{"a", "--layers=65"}, "--layers: '65', want a whole number from 2 to 64"},
      {{"a", "--layers", "-2"}, "--layers: '-2', want"},
      {{"a", "--layers", "3.0"}, "--layers: '3.0', want"},
      {{"a", "--layers", "0x4"}, "--layers: '0x4', want"},
      {{"a", "--layers", " 4"}, "--layers: ' 4', want"},
      {{"a", "--layers", "18446744073709551618"}, "--layers: '18446744073709551618', want"},
      {{"a", "--layers"}, "--layers"},
      {{"a", "--layers", "4", "--layers", "5"}, "--layers is given more than once"},
      {{"a", "--codebook", "field"}, "--codebook: 'field', want reference or analytic"},
      {{"a", "-s", "--temperature", "nan"}, "--temperature: 'nan', want a number"},
      {{"a", "-s", "--temperature", "0,5"}, "--temperature: '0,5', want a number"},
      {{"a", "--temperature", "1"}, "--temperature needs --strict"},
      {{"a", "--layers", "4", "--lora", "x"}, "--layers and --lora exclude each other"},
  };
  for (const auto& [arguments, message] : cases) {
    Sample sample;
    EXPECT_THAT(sample.command.Parse(arguments),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

TEST(CommandLineTest, NearestWordForgivesSlipsOnly) {
  const std::vector<std::string> words = {"build", "inspect", "verify"};
  EXPECT_EQ(NearestWord("inpsect", words), "inspect");
  EXPECT_EQ(NearestWord("biuld", words), "build");
  EXPECT_EQ(NearestWord("model.safetensors", words), "");
  EXPECT_EQ(NearestWord("", words), "");
}

}  // namespace
}  // namespace needle::cli
