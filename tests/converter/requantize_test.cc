#include "converter/requantize.h"

#include <filesystem>
#include <string>
#include <vector>

#include "format/slice.h"
#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/outliers.h"
#include "tests/support/status_matchers.h"

namespace needle::converter {
namespace {

using format::Archive;
using format::Width;
using ::testing::HasSubstr;
using tests::BuildArchive;
using tests::ReadFile;
using tests::StatusIs;
using tests::TempFolder;
using tests::Testdata;

class RequantizeTest : public ::testing::Test {
 protected:
  absl::StatusOr<RequantizeReport> Run(const Archive& archive, const std::string& map,
                                       const TensorPlan* from = nullptr, size_t threads = 2) {
    RequantizeOptions options;
    options.bit_map = *quant::BitMap::Parse(map);
    options.from = from;
    options.threads = threads;
    return Requantize(archive, target(), options);
  }
  std::string target() const { return folder_.File("out.cact"); }

  TempFolder folder_;
};

TEST_F(RequantizeTest, SameWidthsGiveTheSameFile) {
  for (const char* name :
       {"golden/n3-small/cq2.cact", "golden/n2-small/cq2.cact", "fixture/cq2.cact"}) {
    const auto archive = Archive::Open(Testdata(name));
    ASSERT_OK(archive);
    const auto report = Run(*archive, std::string(quant::kShippedScheme));
    ASSERT_OK(report);
    EXPECT_TRUE(report->changes.empty());
    EXPECT_TRUE(ReadFile(target()) == ReadFile(Testdata(name))) << name;
  }
}

// From the checkpoint, the result is what a build with that map gives: the golden archives have no
// index that differs from a build.
TEST_F(RequantizeTest, FromTheCheckpointEqualsABuild) {
  const auto checkpoint = Checkpoint::Open(Testdata("golden/n3-odd/checkpoint.safetensors"));
  ASSERT_OK(checkpoint);
  const auto archive = Archive::Open(Testdata("golden/n3-odd/cq2.cact"));
  ASSERT_OK(archive);
  const auto plan = PlanForArchive(*checkpoint, *archive, {}, false);
  ASSERT_OK(plan);
  const auto report = Run(*archive, "default=3", &*plan);
  ASSERT_OK(report);
  EXPECT_FALSE(report->from_archive);
  EXPECT_TRUE(ReadFile(target()) == ReadFile(Testdata("golden/n3-odd/cq3.cact")));
}

TEST_F(RequantizeTest, FromTheCheckpointOfASlice) {
  const auto checkpoint = Checkpoint::Open(Testdata("golden/n3-odd/checkpoint.safetensors"));
  ASSERT_OK(checkpoint);
  const auto archive = Archive::Open(Testdata("golden/n3-odd/cq2.layers3.cact"));
  ASSERT_OK(archive);
  const auto plan = PlanForArchive(*checkpoint, *archive, {}, false);
  ASSERT_OK(plan);
  // Block 1 of the archive is block 2 of the checkpoint.
  ASSERT_OK(Run(*archive, "embedding=4,mhc=4,layer01.q_proj=4,default=2", &*plan));
  PlanOptions options = tests::ShippedOptions();
  options.layers = 3;
  options.bit_map = *quant::BitMap::Parse("embedding=4,mhc=4,layer02.q_proj=4,default=2");
  ASSERT_OK(BuildArchive(Testdata("golden/n3-odd/checkpoint.safetensors"),
                         folder_.File("want.cact"), options));
  EXPECT_TRUE(ReadFile(target()) == ReadFile(folder_.File("want.cact")));
}

TEST_F(RequantizeTest, UnchangedTensorsAreCopiedBitForBit) {
  const auto archive = Archive::Open(Testdata("golden/n3-small/cq2.cact"));
  ASSERT_OK(archive);
  const auto report = Run(*archive, "embedding=4,mhc=4,attn.q_proj=3,default=2");
  ASSERT_OK(report);
  EXPECT_TRUE(report->from_archive);
  EXPECT_EQ(report->changes.size(), 4U);
  const auto written = Archive::Open(target());
  ASSERT_OK(written);
  for (size_t i = 0; i < written->records().size(); ++i) {
    const bool is_q = written->schema().tensors()[i].id.role == format::TensorRole::kQProj;
    EXPECT_EQ(report->tensors[i].recipe == "copied",
              !is_q && written->schema().tensors()[i].dtype == format::DType::kCq);
    if (is_q) {
      EXPECT_EQ(written->Cq(i).width, Width::kCq3);
      continue;
    }
    const auto a = archive->Blob(i);
    const auto b = written->Blob(i);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << i;
  }
}

TEST_F(RequantizeTest, StatesTheLossAgainstTheArchive) {
  const auto archive = Archive::Open(Testdata("golden/n3-small/cq4.cact"));
  ASSERT_OK(archive);
  const auto report = Run(*archive, "attn.q_proj=2,default=4");
  ASSERT_OK(report);
  ASSERT_EQ(report->changes.size(), 4U);
  for (const WidthChange& change : report->changes) {
    EXPECT_EQ(change.old_format, "CQ4");
    EXPECT_EQ(change.new_width, Width::kCq2);
    // 24,576 weights that CQ4 left Gaussian but for 1 %: theory to within a few percent.
    EXPECT_NEAR(change.added_loss, quant::TheoreticalDistortion(Width::kCq2), 0.01) << change.name;
    // The same by the encoder's own account, which measures in the rotated domain.
    EXPECT_NEAR(change.added_loss, report->tensors[change.position].stats.RelativeError(), 1e-5);
  }
}

TEST_F(RequantizeTest, EveryWidthOfEveryModel) {
  for (const char* name :
       {"golden/n3-odd/mixed.cact", "golden/n3-pad/cq4.cact", "golden/n2-small/ternary.cact"}) {
    const auto archive = Archive::Open(Testdata(name));
    ASSERT_OK(archive);
    for (const char* width : {"1", "1.58", "2", "3", "4"}) {
      ASSERT_OK(Run(*archive, "default=" + std::string(width), nullptr, 1)) << name << " " << width;
      const std::string one = ReadFile(target());
      ASSERT_OK(Run(*archive, "default=" + std::string(width), nullptr, 7));
      EXPECT_TRUE(one == ReadFile(target()));
    }
  }
}

TEST_F(RequantizeTest, CheckpointOfAnotherModelIsRefused) {
  const auto archive = Archive::Open(Testdata("golden/n3-odd/cq2.cact"));
  ASSERT_OK(archive);
  const auto other = Checkpoint::Open(Testdata("golden/n3-small/checkpoint.safetensors"));
  ASSERT_OK(other);
  const auto plan =
      PlanForArchive(*other, *Archive::Open(Testdata("golden/n3-small/cq2.cact")), {}, false);
  ASSERT_OK(plan);
  EXPECT_THAT(Run(*archive, "default=3", &*plan),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("geometr")));
  // The fixture's two checkpoints have one geometry and different norms.
  const TempFolder input;
  const auto outliers = Checkpoint::Open(tests::WriteOutliersCheckpoint(input));
  ASSERT_OK(outliers);
  const auto fixture = Archive::Open(Testdata("fixture/cq2.cact"));
  ASSERT_OK(fixture);
  const auto outlier_plan = PlanForArchive(*outliers, *fixture, {}, false);
  ASSERT_OK(outlier_plan);
  EXPECT_THAT(Run(*fixture, "default=3", &*outlier_plan),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("differs")));
  EXPECT_TRUE(folder_.Names().empty());
}

// Field case F01 (a).
TEST_F(RequantizeTest, OntoItsOwnInputIsRefusedAndLeavesItIntact) {
  const std::string own = folder_.File("own.cact");
  std::filesystem::copy_file(Testdata("golden/n3-pad/cq2.cact"), own);
  std::filesystem::create_symlink(own, folder_.File("soft.cact"));
  std::filesystem::create_hard_link(own, folder_.File("hard.cact"));
  const auto archive = Archive::Open(own);
  ASSERT_OK(archive);
  RequantizeOptions options;
  options.bit_map = *quant::BitMap::Parse("default=3");
  for (const char* name : {"own.cact", "soft.cact", "hard.cact"}) {
    EXPECT_THAT(Requantize(*archive, folder_.File(name), options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  }
  EXPECT_TRUE(ReadFile(own) == ReadFile(Testdata("golden/n3-pad/cq2.cact")));
}

}  // namespace
}  // namespace needle::converter
