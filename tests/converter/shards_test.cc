// Field case F09: a checkpoint over several files.
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_checkpoint.h"

namespace needle::converter {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::BuildArchive;
using tests::ReadFile;
using tests::StatusIs;
using tests::TempFolder;
using tests::TestCheckpoint;
using tests::Testdata;

constexpr size_t kShards = 3;

class ShardsTest : public ::testing::Test {
 protected:
  ShardsTest() {
    const TestCheckpoint whole = TestCheckpoint::Load(tests::kPadCheckpoint);
    shards_.resize(kShards);
    size_t next = 0;
    for (const auto& [name, tensor] : whole.tensors) {
      const size_t shard = next++ % kShards;
      shards_[shard].tensors[name] = tensor;
      index_["weight_map"][name] = Name(shard);
    }
    for (TestCheckpoint& shard : shards_) shard.metadata = whole.metadata;
  }

  static std::string Name(size_t shard) { return "part" + std::to_string(shard) + ".safetensors"; }
  std::string IndexPath() const { return folder_.File("model.safetensors.index.json"); }
  // A tensor that shard 1 holds.
  std::string Held() const { return shards_[1].tensors.begin()->first; }

  absl::Status Build() const {
    for (size_t i = 0; i < kShards; ++i) shards_[i].Write(folder_.File(Name(i)));
    tests::WriteFile(IndexPath(), index_.dump());
    return BuildArchive(IndexPath(), folder_.File("model.cact")).status();
  }

  TempFolder folder_;
  std::vector<TestCheckpoint> shards_;
  nlohmann::json index_;
};

TEST_F(ShardsTest, WholeSetGivesTheBytesOfTheSingleFile) {
  ASSERT_OK(Build());
  ASSERT_OK(BuildArchive(Testdata(tests::kPadCheckpoint), folder_.File("want.cact")));
  const std::string want = ReadFile(folder_.File("want.cact"));
  EXPECT_TRUE(ReadFile(folder_.File("model.cact")) == want);
  // Named without its index.
  ASSERT_OK(BuildArchive(folder_.File("model.safetensors"), folder_.File("model.cact")));
  EXPECT_TRUE(ReadFile(folder_.File("model.cact")) == want);
}

TEST_F(ShardsTest, OnlyListedFilesAreRead) {
  tests::WriteFile(folder_.File("part3.safetensors"), "not a checkpoint");
  EXPECT_OK(Build());
}

TEST_F(ShardsTest, MetadataMayBeInOneShardOnly) {
  shards_[0].metadata.clear();
  shards_[2].metadata.clear();
  EXPECT_OK(Build());
}

TEST_F(ShardsTest, MetadataMustNotDiffer) {
  shards_[2].metadata["step"] = "8";
  EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss,
                                AllOf(HasSubstr("\"step\""), HasSubstr(Name(2)))));
}

TEST_F(ShardsTest, MissingShardIsNamed) {
  ASSERT_OK(Build());
  std::filesystem::remove(folder_.File(Name(1)));
  EXPECT_THAT(Checkpoint::Open(IndexPath()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("shard " + Name(1))));
}

TEST_F(ShardsTest, TensorInAnotherShardThanListedIsNamed) {
  index_["weight_map"][Held()] = Name(2);
  EXPECT_THAT(Build(),
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr(Name(1)), HasSubstr(Held()))));
}

TEST_F(ShardsTest, TensorThatTheIndexDoesNotListIsNamed) {
  index_["weight_map"].erase(Held());
  EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss,
                                AllOf(HasSubstr(Held()), HasSubstr("does not list"))));
}

TEST_F(ShardsTest, TensorThatNoShardHoldsIsNamed) {
  index_["weight_map"]["ghost"] = Name(0);
  EXPECT_THAT(Build(),
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("ghost"), HasSubstr(Name(0)))));
}

TEST_F(ShardsTest, TensorInTwoShardsIsNamed) {
  shards_[2].tensors[Held()] = shards_[1].tensors[Held()];
  EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(Held())));
}

TEST_F(ShardsTest, ShardCutShortIsNamed) {
  ASSERT_OK(Build());
  const std::string shard = ReadFile(folder_.File(Name(1)));
  tests::WriteFile(folder_.File(Name(1)), shard.substr(0, shard.size() - 1));
  EXPECT_THAT(Checkpoint::Open(IndexPath()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(Name(1))));
}

TEST_F(ShardsTest, NamesThatLeaveTheFolderAreRefused) {
  for (const nlohmann::json& name : std::vector<nlohmann::json>{
           "../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "", 7}) {
    index_["weight_map"][Held()] = name;
    EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kDataLoss,
                                  AllOf(HasSubstr(Held()), HasSubstr("beside the index"))))
        << name;
  }
}

TEST_F(ShardsTest, FolderAsShardIsRefused) {
  std::filesystem::create_directory(folder_.File("folder"));
  index_["weight_map"][Held()] = "folder";
  EXPECT_THAT(Build(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("folder")));
}

TEST_F(ShardsTest, IndexWithoutMapIsRefused) {
  tests::WriteFile(IndexPath(), "{\"metadata\":{}}");
  EXPECT_THAT(Checkpoint::Open(IndexPath()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("weight_map")));
}

}  // namespace
}  // namespace needle::converter
