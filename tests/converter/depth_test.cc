// One input, one set of bytes: any number of threads, built, sliced or cut from a ladder.
#include <filesystem>
#include <string>
#include <vector>

#include "converter/ladder.h"
#include "format/slice.h"
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

struct DepthCase {
  std::string folder;
  uint32_t num_layers;
};
void PrintTo(const DepthCase& depth_case, std::ostream* out) { *out << depth_case.folder; }

class DepthTest : public ::testing::TestWithParam<DepthCase> {
 protected:
  std::string Input() const { return Testdata(GetParam().folder + "/checkpoint.safetensors"); }
  PlanOptions Options() const {
    PlanOptions options = tests::ShippedOptions();
    options.tokenizer = Testdata("fixture/tokenizer.model");
    if (GetParam().folder != "fixture") options.tokenizer = "";
    return options;
  }
  std::string Built(uint32_t depth) const {
    PlanOptions options = Options();
    options.layers = depth;
    EXPECT_OK(BuildArchive(Input(), folder_.File("built.cact"), options));
    return ReadFile(folder_.File("built.cact"));
  }

  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Models, DepthTest,
                         ::testing::Values(DepthCase{"golden/n3-small", 4},
                                           DepthCase{"golden/n3-pad", 4},
                                           DepthCase{"golden/n3-odd", 5},
                                           DepthCase{"golden/n2-small", 3},
                                           DepthCase{"fixture", 6}));

TEST_P(DepthTest, ThreadsDoNotShow) {
  const auto plan = tests::MakePlan(Input(), Options());
  ASSERT_OK(plan);
  std::vector<std::string> files;
  std::vector<double> errors;
  for (const size_t threads : {1U, 2U, 7U}) {
    BuildOptions options;
    options.threads = threads;
    const auto report = Build(*plan, folder_.File("t.cact"), options);
    ASSERT_OK(report);
    files.push_back(ReadFile(folder_.File("t.cact")));
    errors.push_back(report->tensors[2].stats.squared_error);
  }
  EXPECT_TRUE(files[0] == files[1] && files[0] == files[2]);
  EXPECT_TRUE(errors[0] == errors[1] && errors[0] == errors[2]);
}

TEST_P(DepthTest, SlicedEqualsBuilt) {
  ASSERT_OK(BuildArchive(Input(), folder_.File("full.cact"), Options()));
  const auto full = format::Archive::Open(folder_.File("full.cact"));
  ASSERT_OK(full);
  for (uint32_t depth = 2; depth <= GetParam().num_layers; ++depth) {
    ASSERT_OK(format::SliceArchive(*full, depth, {}, folder_.File("sliced.cact")));
    EXPECT_TRUE(ReadFile(folder_.File("sliced.cact")) == Built(depth)) << depth;
  }
}

TEST_P(DepthTest, LadderEqualsBuilt) {
  const auto checkpoint = Checkpoint::Open(Input());
  ASSERT_OK(checkpoint);
  // Ascending, without the full depth first: the deepest one asked for is encoded.
  for (const uint32_t top : {GetParam().num_layers - 1, GetParam().num_layers}) {
    std::vector<LadderTarget> targets;
    for (uint32_t depth = 2; depth <= top; ++depth) {
      targets.push_back({depth, folder_.File("d" + std::to_string(depth) + ".cact")});
    }
    const auto report = BuildLadder(*checkpoint, Options(), targets, {});
    ASSERT_OK(report);
    for (size_t i = 0; i < targets.size(); ++i) {
      EXPECT_TRUE(ReadFile(targets[i].path) == Built(targets[i].depth)) << targets[i].depth;
      EXPECT_EQ(report->rungs[i].depth, targets[i].depth);
      EXPECT_EQ(report->rungs[i].file_bytes, std::filesystem::file_size(targets[i].path));
      const auto archive = format::Archive::Open(targets[i].path);
      ASSERT_OK(archive);
      ASSERT_EQ(report->rungs[i].tensors.size(), archive->records().size());
      for (size_t t = 0; t < archive->records().size(); ++t) {
        EXPECT_EQ(report->rungs[i].tensors[t].name, archive->schema().tensors()[t].name);
        EXPECT_EQ(report->rungs[i].tensors[t].num_bytes, archive->records()[t].num_bytes);
      }
    }
  }
}

TEST(LadderTest, ReportsTheErrorOfWholeTensors) {
  const TempFolder folder;
  const auto checkpoint = Checkpoint::Open(Testdata("golden/n3-small/checkpoint.safetensors"));
  ASSERT_OK(checkpoint);
  const auto ladder = BuildLadder(*checkpoint, tests::ShippedOptions(),
                                  {{2, folder.File("2.cact")}, {4, folder.File("4.cact")}}, {});
  ASSERT_OK(ladder);
  PlanOptions options = tests::ShippedOptions();
  options.layers = 2;
  const auto built = BuildArchive(Testdata("golden/n3-small/checkpoint.safetensors"),
                                  folder.File("b.cact"), options);
  ASSERT_OK(built);
  for (size_t i = 0; i < built->tensors.size(); ++i) {
    const TensorReport& rung = ladder->rungs[0].tensors[i];
    EXPECT_EQ(rung.name, built->tensors[i].name);
    EXPECT_EQ(rung.shape, built->tensors[i].shape);
    if (rung.stats.groups == 0) continue;
    EXPECT_EQ(rung.stats.RelativeError(), built->tensors[i].stats.RelativeError()) << rung.name;
  }
}

TEST(LadderTest, TargetsAreCheckedBeforeAnyWork) {
  const TempFolder folder;
  const auto checkpoint = Checkpoint::Open(Testdata("golden/n3-pad/checkpoint.safetensors"));
  ASSERT_OK(checkpoint);
  const auto build = [&](const std::vector<LadderTarget>& targets) {
    return BuildLadder(*checkpoint, tests::ShippedOptions(), targets, {}).status();
  };
  const std::string a = folder.File("a.cact");
  const std::string b = folder.File("b.cact");
  EXPECT_FALSE(build({}).ok());
  EXPECT_THAT(build({{2, a}, {2, b}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(build({{2, a}, {3, a}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two depths")));
  EXPECT_FALSE(build({{2, a}, {9, b}}).ok());
  EXPECT_FALSE(build({{4, a}, {2, folder.File("none/b.cact")}}).ok());
  EXPECT_TRUE(folder.Names().empty());
}

}  // namespace
}  // namespace needle::converter
