// Field case F02, width overrides, on the command line: build, --layers, requantize.
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/cli/samples.h"

namespace needle::tests {
namespace {

using ::testing::HasSubstr;

class WidthsTest : public CommandTest {
 protected:
  // The kind of each tensor that a build with this map would have.
  std::map<std::string, std::string> Kinds(const std::string& map,
                                           const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "build", Testdata(kOddCheckpoint), "--dry-run", "--json", "--bits-map", map};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::map<std::string, std::string> kinds;
    const base::Json json = Expect(0, arguments).Json();
    for (const base::Json& tensor : json["tensors"]) {
      kinds[tensor["name"]] = tensor["kind"];
    }
    return kinds;
  }
};

TEST_F(WidthsTest, TheLongestPrefixWinsWhateverTheOrder) {
  const auto kinds = Kinds("embedding=4,attn.q_proj=2,attn=4,default=2");
  EXPECT_EQ(kinds.at("embedding"), "CQ4");
  EXPECT_EQ(kinds.at("layer00.q_proj"), "CQ2");
  EXPECT_EQ(kinds.at("layer00.k_proj"), "CQ4");
  EXPECT_EQ(kinds.at("mhc_phi_pre"), "CQ2");
  EXPECT_EQ(kinds.at("confidence_head.probes"), "CQ4");

  Expect(0, {"build", Testdata(kOddCheckpoint), "--bits-map",
             "embedding=4,attn.q_proj=2,attn=4,default=2", "-o", File("a.cact"), "--no-verify"});
  Expect(0, {"build", Testdata(kOddCheckpoint), "--bits-map",
             "default=2,attn=4,attn.q_proj=2,embedding=4", "-o", File("b.cact"), "--no-verify"});
  EXPECT_EQ(ReadFile(File("a.cact")), ReadFile(File("b.cact")));
}

TEST_F(WidthsTest, ALayersOwnKeyBeatsOthersAndKeepsItsNumberUnderLayers) {
  auto kinds = Kinds("layer02.q_proj=4,attn.q_proj=3,default=2");
  EXPECT_EQ(kinds.at("layer00.q_proj"), "CQ3");
  EXPECT_EQ(kinds.at("layer02.q_proj"), "CQ4");
  // Depth 2 keeps the first and the last of five; block 4 becomes layer 1 and keeps its width.
  kinds = Kinds("layer04.q_proj=4,default=2", {"--layers", "2"});
  EXPECT_EQ(kinds.at("layer00.q_proj"), "CQ2");
  EXPECT_EQ(kinds.at("layer01.q_proj"), "CQ4");
}

TEST_F(WidthsTest, BadMapsAreNamedAndNothingIsWritten) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"attn.qproj=4,default=2", "attn.qproj"},
      {"attn=4,attn=2,default=2", "attn"},
      {"embedding=4", "default"},
      {"default=0", "0"},
      {"default=5", "5"},
      {"default=8", "8"},
      {"default=2.0", "2.0"},
      {"default=1.58 ", "1.58 "},
      {"default=2,", "stray comma"},
      {"=4,default=2", "empty"},
      {"confidence_head=2,default=2", "confidence_head"},
      {"", "stray comma"},
  };
  for (const auto& [map, named] : cases) {
    SCOPED_TRACE(map);
    EXPECT_THAT(
        Expect(2, {"build", Testdata(kOddCheckpoint), "--bits-map", map, "-o", File("x.cact")}).err,
        HasSubstr(named));
    EXPECT_THAT(
        Expect(2, {"requantize", Testdata(kOddArchive), "--bits-map", map, "-o", File("x.cact")})
            .err,
        HasSubstr(named));
    EXPECT_THAT(folder_.Names(), ::testing::IsEmpty());
  }
}

TEST_F(WidthsTest, RequantizeFollowsTheSameMap) {
  Expect(0, {"build", Testdata(kOddCheckpoint), "-o", File("base.cact"), "--no-verify"});
  Expect(0, {"requantize", File("base.cact"), "--from", Testdata(kOddCheckpoint), "--bits-map",
             "layer01.q_proj=4,attn.q_proj=3,default=2", "-o", File("r.cact")});
  Expect(0, {"build", Testdata(kOddCheckpoint), "--bits-map",
             "layer01.q_proj=4,attn.q_proj=3,default=2", "-o", File("b.cact"), "--no-verify"});
  // Everything comes from full precision or was plain rounding before: the same file.
  EXPECT_EQ(ReadFile(File("r.cact")), ReadFile(File("b.cact")));
}

TEST_F(WidthsTest, BitsAndMapExcludeEachOther) {
  EXPECT_THAT(Expect(2, {"build", "x.safetensors", "--bits", "2", "--bits-map", "default=2", "-o",
                         File("x.cact")})
                  .err,
              HasSubstr("--bits and --bits-map exclude each other"));
  EXPECT_THAT(Expect(2, {"build", "x.safetensors", "--bits", "5", "-o", File("x.cact")}).err,
              HasSubstr("--bits: '5', want 1 or 1.58 or 2 or 3 or 4"));
}

}  // namespace
}  // namespace needle::tests
