#include "format/slice.h"

#include <string>
#include <vector>

#include "base/json.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::format {
namespace {

using ::needle::tests::ReadBytes;
using ::needle::tests::ReadFile;
using ::needle::tests::StatusIs;
using ::needle::tests::TempFolder;
using ::needle::tests::Testdata;
using ::testing::HasSubstr;

// Slices `source` (below testdata) to `target` in `folder`.
absl::StatusOr<LayerSelection> Slice(const std::string& source, uint32_t depth,
                                     const std::string& target,
                                     std::vector<uint32_t> ladder_order = {}) {
  const auto archive = Archive::Open(source);
  if (!archive.ok()) return archive.status();
  return SliceArchive(*archive, depth, ladder_order, target);
}

class GoldenSliceTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string Folder() const { return Testdata(std::string("golden/") + GetParam()); }

  base::Json Rungs() const {
    const auto info = base::ParseJson(ReadFile(Folder() + "/info.json"));
    EXPECT_OK(info);
    return info->at("rungs");
  }
};

TEST_P(GoldenSliceTest, EveryRungEqualsTheReferenceByteForByte) {
  const TempFolder temp;
  const base::Json rungs = Rungs();
  for (const auto& [depth, rung] : rungs.items()) {
    ASSERT_OK(
        Slice(Folder() + "/cq2.cact", static_cast<uint32_t>(std::stoi(depth)), temp.File(depth)));
    EXPECT_EQ(ReadBytes(temp.File(depth)), ReadBytes(Folder() + "/cq2.layers" + depth + ".cact"))
        << depth;
  }
}

TEST_P(GoldenSliceTest, KeepsWhatTheReferenceKeeps) {
  const TempFolder temp;
  const base::Json rungs = Rungs();
  for (const auto& [depth, rung] : rungs.items()) {
    const auto kept =
        Slice(Folder() + "/cq2.cact", static_cast<uint32_t>(std::stoi(depth)), temp.File(depth));
    ASSERT_OK(kept);
    EXPECT_EQ(kept->layers, rung["layers"].get<std::vector<uint32_t>>());
    EXPECT_EQ(kept->geometry.engram_sites, rung["sites"].get<std::vector<uint32_t>>());
    EXPECT_EQ(kept->geometry.kv_window, rung["kv_window"].get<uint32_t>());
    std::vector<uint32_t> globals;
    for (uint32_t i = 0; i < 64; ++i) {
      if (kept->geometry.IsGlobal(i)) globals.push_back(i);
    }
    EXPECT_EQ(globals, rung["globals"].get<std::vector<uint32_t>>());
  }
}

TEST_P(GoldenSliceTest, SliceAtFullDepthIsTheArchiveItself) {
  const TempFolder temp;
  const std::string source = Folder() + "/cq2.cact";
  const auto archive = Archive::Open(source);
  ASSERT_OK(archive);
  ASSERT_OK(Slice(source, archive->geometry().num_layers, temp.File("full")));
  EXPECT_EQ(ReadBytes(temp.File("full")), ReadBytes(source));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSliceTest, ::testing::Values("n3-small", "n3-odd", "n3-pad"),
                         [](const auto& test) {
                           return std::string(test.param).replace(2, 1, "_");
                         });

// A ladder's orders nest here: of 4 or 5 blocks, depth 3 and then 2 keep what depth 2 keeps.
TEST(SliceTest, SliceOfASliceEqualsTheSlice) {
  const TempFolder temp;
  for (const std::string name : {"n3-small", "n3-odd"}) {
    const std::string folder = Testdata("golden/" + name);
    ASSERT_OK(Slice(folder + "/cq2.cact", 3, temp.File("three")));
    ASSERT_OK(Slice(temp.File("three"), 2, temp.File("two")));
    EXPECT_EQ(ReadBytes(temp.File("two")), ReadBytes(folder + "/cq2.layers2.cact"));
  }
}

TEST(SliceTest, TakesBlocksByAGivenOrder) {
  const TempFolder temp;
  const auto kept = Slice(Testdata("golden/n3-small/cq2.cact"), 2, temp.File("out"), {3, 1, 0, 2});
  ASSERT_OK(kept);
  EXPECT_EQ(kept->layers, (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(kept->sites, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(kept->geometry.engram_sites, (std::vector<uint32_t>{0, 1}));
}

// Needle 2's heads have no rows for layers; its mhc tensors do.
TEST(SliceTest, SlicesNeedle2) {
  const TempFolder temp;
  const std::string source = Testdata("golden/n2-small/cq2.cact");
  ASSERT_OK(Slice(source, 2, temp.File("out")));
  const auto full = Archive::Open(source);
  const auto sliced = Archive::Open(temp.File("out"));
  ASSERT_OK(full);
  ASSERT_OK(sliced);
  const auto same = [&](TensorId from, TensorId to) {
    const auto a = full->Blob(*full->schema().Find(from));
    const auto b = sliced->Blob(*sliced->schema().Find(to));
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  EXPECT_TRUE(same({TensorRole::kQProj, 2}, {TensorRole::kQProj, 1}));
  EXPECT_TRUE(same({TensorRole::kHeadProbes, 0}, {TensorRole::kHeadProbes, 0}));
  EXPECT_TRUE(same({TensorRole::kHeadProj, 1}, {TensorRole::kHeadProj, 1}));
  const auto gate = *full->schema().Find({TensorRole::kMhcAPre, 0});
  const std::vector<float> all = full->Floats(gate);
  EXPECT_EQ(sliced->Floats(*sliced->schema().Find({TensorRole::kMhcAPre, 0})),
            (std::vector<float>{all[0], all[2]}));
  EXPECT_EQ(sliced->geometry().kv_window, 12U);
}

TEST(SliceTest, RefusesADepthOutsideTheLadder) {
  const TempFolder temp;
  for (const uint32_t depth : {0U, 1U, 5U}) {
    EXPECT_THAT(Slice(Testdata("golden/n3-small/cq2.cact"), depth, temp.File("out")),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(std::to_string(depth) + ", want 2 to 4")));
  }
  EXPECT_TRUE(temp.Names().empty());
}

TEST(SliceTest, RefusesAnOrderThatIsNoPermutation) {
  const TempFolder temp;
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 3, 1}, {0, 3, 1, 1}, {0, 3, 1, 4}, {0, 3, 1, 2, 4}}) {
    EXPECT_THAT(Slice(Testdata("golden/n3-small/cq2.cact"), 2, temp.File("out"), order),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ladder_order")));
  }
  EXPECT_TRUE(temp.Names().empty());
}

TEST(SliceTest, RefusesToReplaceItsOwnInput) {
  const TempFolder temp;
  const std::string source = temp.File("a.cact");
  std::filesystem::copy_file(Testdata("golden/n3-pad/cq2.cact"), source);
  const std::vector<uint8_t> before = ReadBytes(source);
  EXPECT_THAT(Slice(source, 2, source),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("same file as the input")));
  EXPECT_EQ(ReadBytes(source), before);
}

}  // namespace
}  // namespace needle::format
