// Field case F01: what a build does to files.
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using ::testing::HasSubstr;
using tests::BuildArchive;
using tests::ReadFile;
using tests::StatusIs;
using tests::TempFolder;
using tests::Testdata;

class OutputTest : public ::testing::Test {
 protected:
  OutputTest() {
    std::filesystem::copy_file(Testdata("golden/n3-pad/checkpoint.safetensors"), input_);
  }

  TempFolder folder_;
  std::string input_ = folder_.File("in.safetensors");
};

TEST_F(OutputTest, InputIsNeverTheTarget) {
  std::filesystem::create_symlink(input_, folder_.File("soft.cact"));
  std::filesystem::create_hard_link(input_, folder_.File("hard.cact"));
  for (const std::string& target : {input_, folder_.File("soft.cact"), folder_.File("hard.cact")}) {
    EXPECT_THAT(BuildArchive(input_, target),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(target)));
  }
  EXPECT_TRUE(ReadFile(input_) == ReadFile(Testdata("golden/n3-pad/checkpoint.safetensors")));
}

TEST_F(OutputTest, TokenizerAndAdapterAreInputsToo) {
  const std::string tokenizer = folder_.File("tokenizer.model");
  std::filesystem::copy_file(Testdata("fixture/tokenizer.model"), tokenizer);
  PlanOptions options = tests::ShippedOptions();
  options.tokenizer = tokenizer;
  EXPECT_FALSE(
      BuildArchive(Testdata("golden/n3-small/checkpoint.safetensors"), tokenizer, options).ok());
  EXPECT_TRUE(ReadFile(tokenizer) == ReadFile(Testdata("fixture/tokenizer.model")));
}

TEST_F(OutputTest, FolderThatIsNotThereIsRefusedBeforeAnyWork) {
  EXPECT_THAT(BuildArchive(input_, folder_.File("none/out.cact")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  EXPECT_FALSE(BuildArchive(input_, folder_.path()).ok());
}

TEST_F(OutputTest, StoppingLeavesTheOlderFile) {
  const std::string target = folder_.File("out.cact");
  tests::WriteFile(target, "older");
  const auto plan = tests::MakePlan(input_);
  ASSERT_OK(plan);
  size_t calls = 0;
  BuildOptions options;
  options.progress = [&](const BuildProgress& progress) {
    EXPECT_LE(progress.values_done, progress.num_values);
    return ++calls < 20;
  };
  EXPECT_THAT(Build(*plan, target, options), StatusIs(absl::StatusCode::kCancelled, HasSubstr("")));
  EXPECT_EQ(ReadFile(target), "older");
  EXPECT_EQ(folder_.Names(), (std::vector<std::string>{"in.safetensors", "out.cact"}));
}

TEST_F(OutputTest, ProgressEndsWithAllDone) {
  const auto plan = tests::MakePlan(input_);
  ASSERT_OK(plan);
  BuildProgress last;
  BuildOptions options;
  options.progress = [&](const BuildProgress& progress) {
    EXPECT_GE(progress.values_done, last.values_done);
    EXPECT_GE(progress.tensors_done, last.tensors_done);
    last = progress;
    return true;
  };
  ASSERT_OK(Build(*plan, folder_.File("out.cact"), options));
  EXPECT_EQ(last.values_done, last.num_values);
  EXPECT_EQ(last.tensors_done, plan->schema().tensors().size());
}

// An encoder of the caller's own gets whole tensors where it asks for them.
class CountingEncoder final : public TensorEncoder {
 public:
  bool NeedsWholeTensor(size_t position) const override { return position == 0; }
  absl::StatusOr<quant::EncodeStats> Encode(const EncodeRequest& request) const override {
    if (request.position == 0) {
      EXPECT_EQ(request.first_row, 0U);
      EXPECT_EQ(request.num_rows, 384U);
    }
    return RoundToNearest().Encode(request);
  }
  std::string Recipe(size_t position) const override { return position == 0 ? "whole" : "rows"; }
};

TEST_F(OutputTest, EncoderOfTheCallerIsUsedAndNamed) {
  const auto plan = tests::MakePlan(input_);
  ASSERT_OK(plan);
  const CountingEncoder encoder;
  BuildOptions options;
  options.encoder = &encoder;
  const auto report = Build(*plan, folder_.File("own.cact"), options);
  ASSERT_OK(report);
  EXPECT_EQ(report->tensors[0].recipe, "whole");
  EXPECT_EQ(report->tensors[2].recipe, "rows");
  ASSERT_OK(Build(*plan, folder_.File("default.cact"), {}));
  EXPECT_TRUE(ReadFile(folder_.File("own.cact")) == ReadFile(folder_.File("default.cact")));
}

TEST_F(OutputTest, AnalyticCodebookIsStoredAndUsed) {
  const auto plan = tests::MakePlan(input_);
  ASSERT_OK(plan);
  BuildOptions options;
  options.codebook = quant::CodebookKind::kAnalytic;
  ASSERT_OK(Build(*plan, folder_.File("a.cact"), options));
  const auto archive = format::Archive::Open(folder_.File("a.cact"));
  ASSERT_OK(archive);
  const auto stored = quant::StoredCodebooks(quant::CodebookKind::kAnalytic);
  EXPECT_TRUE(std::equal(stored.begin(), stored.end(), archive->codebooks().begin(),
                         archive->codebooks().end()));
}

}  // namespace
}  // namespace needle::converter
