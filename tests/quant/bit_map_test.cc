#include "quant/bit_map.h"

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "format/archive.h"
#include "format/layer_selection.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::quant {
namespace {

using format::Width;
using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::StatusIs;

// The schema of n3-odd: 5 layers, 3 engram sites, a confidence head.
class BitMapTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto archive = format::Archive::Open(tests::Testdata("golden/n3-odd/cq2.cact"));
    ASSERT_OK(archive);
    schema_ = archive->schema();
    geometry_ = archive->geometry();
    layers_.resize(geometry_.num_layers);
    std::iota(layers_.begin(), layers_.end(), 0U);
    sites_.resize(geometry_.engram_sites.size());
    std::iota(sites_.begin(), sites_.end(), 0U);
  }

  InputNumbers Whole() const {
    return {layers_, sites_, geometry_.num_layers, static_cast<uint32_t>(sites_.size())};
  }

  // Widths by canonical name of the CQ tensors.
  absl::StatusOr<std::map<std::string, Width>> Widths(const std::string& text) const {
    return Widths(text, schema_, Whole());
  }
  static absl::StatusOr<std::map<std::string, Width>> Widths(const std::string& text,
                                                             const format::Schema& schema,
                                                             const InputNumbers& input) {
    const auto map = BitMap::Parse(text);
    if (!map.ok()) return map.status();
    const auto widths = map->Resolve(schema, input);
    if (!widths.ok()) return widths.status();
    std::map<std::string, Width> by_name;
    for (size_t i = 0; i < widths->size(); ++i) {
      const format::TensorSpec& spec = schema.tensors()[i];
      if (spec.dtype == format::DType::kCq) by_name[spec.name] = (*widths)[i];
    }
    return by_name;
  }

  format::Schema schema_;
  format::Geometry geometry_;
  std::vector<uint32_t> layers_;
  std::vector<uint32_t> sites_;
};

TEST_F(BitMapTest, LongestPrefixWinsInAnyOrder) {
  const auto widths = Widths("embedding=4,attn.q_proj=2,attn=4,default=2");
  const auto reversed = Widths("default=2,attn=4,attn.q_proj=2,embedding=4");
  ASSERT_OK(widths);
  ASSERT_OK(reversed);
  EXPECT_EQ(*widths, *reversed);
  EXPECT_EQ(widths->at("embedding"), Width::kCq4);
  EXPECT_EQ(widths->at("layer03.q_proj"), Width::kCq2);
  EXPECT_EQ(widths->at("layer03.k_proj"), Width::kCq4);
  EXPECT_EQ(widths->at("layer00.out_proj"), Width::kCq4);
  EXPECT_EQ(widths->at("mhc_phi_res"), Width::kCq2);
  EXPECT_EQ(widths->at("engram1.tables"), Width::kCq2);
}

TEST_F(BitMapTest, AWidthEqualToTheDefaultStillCounts) {
  const auto widths = Widths("attn=4,attn.q_proj=2,default=2");
  ASSERT_OK(widths);
  EXPECT_EQ(widths->at("layer00.q_proj"), Width::kCq2);
}

TEST_F(BitMapTest, ALayersKeyBeatsEveryOther) {
  for (const std::string text :
       {"layer03.q_proj=4,attn.q_proj=2,default=2", "attn.q_proj=2,default=2,layer03.q_proj=4",
        "layer03.q=4,attn.q_proj=2,default=2"}) {
    const auto widths = Widths(text);
    ASSERT_OK(widths);
    EXPECT_EQ(widths->at("layer03.q_proj"), Width::kCq4) << text;
    EXPECT_EQ(widths->at("layer02.q_proj"), Width::kCq2) << text;
  }
  // Shorter than "attn.q_proj", and still first.
  const auto all = Widths("layer03.=1.58,layer03.k_proj=3,attn.q_proj=2,default=4");
  ASSERT_OK(all);
  EXPECT_EQ(all->at("layer03.q_proj"), Width::kTernary);
  EXPECT_EQ(all->at("layer03.k_proj"), Width::kCq3);
  EXPECT_EQ(all->at("layer04.q_proj"), Width::kCq2);
  EXPECT_EQ(all->at("layer04.v_proj"), Width::kCq4);
}

TEST_F(BitMapTest, ShippedSchemeIsTheField) {
  const auto widths = Widths(std::string(kShippedScheme));
  ASSERT_OK(widths);
  for (const auto& [name, width] : *widths) {
    const bool four =
        name == "embedding" || name.starts_with("mhc") || name.find("head") != name.npos;
    EXPECT_EQ(width, four ? Width::kCq4 : Width::kCq2) << name;
  }
}

TEST_F(BitMapTest, HeadsStayAt4BitsWhateverTheMapSays) {
  const auto widths = Widths("default=1");
  ASSERT_OK(widths);
  EXPECT_EQ(widths->at("confidence_head.proj"), Width::kCq4);
  EXPECT_EQ(widths->at("embedding"), Width::kBinary);
}

TEST_F(BitMapTest, RefusesAKeyThatNamesAHeadWithTheReason) {
  for (const std::string key :
       {"confidence_head", "confidence_head.proj", "confidence", "embedding_head", "router_head"}) {
    EXPECT_THAT(Widths(key + "=2,default=2"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"" + key + "\""), HasSubstr("always 4-bit"))));
  }
}

TEST_F(BitMapTest, RefusesAKeyThatMatchesNothing) {
  for (const std::string key :
       {"attn.qproj", "q_proj", "final_norm", "layer05.q_proj", "layer03.attn.q_proj",
        "layer3.q_proj", "layer", "layer00", "layer00.d1", "engram3.tables", "engram0.taps", "x"}) {
    EXPECT_THAT(Widths(key + "=4,default=2"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("\"" + key + "\""), HasSubstr("matches no"))));
  }
}

TEST_F(BitMapTest, KeysUseTheInputsNumbersInASlice) {
  // Depth 3 keeps blocks 0, 2, 4 of 5.
  const auto selection = format::LayerSelection::Make(geometry_, 3, {});
  ASSERT_OK(selection);
  ASSERT_EQ(selection->layers, (std::vector<uint32_t>{0, 2, 4}));
  const auto schema = format::Schema::Make(selection->geometry, schema_.heads(), false);
  ASSERT_OK(schema);
  const InputNumbers input = {selection->layers, selection->sites, geometry_.num_layers,
                              static_cast<uint32_t>(sites_.size())};
  // layer01 and site 1 are gone: their keys are no error, and mean nothing to those that moved up.
  const auto widths =
      Widths("layer02.q_proj=4,layer01.=1,engram1=1,engram2.tables=3,default=2", *schema, input);
  ASSERT_OK(widths);
  EXPECT_EQ(widths->at("layer01.q_proj"), Width::kCq4);
  EXPECT_EQ(widths->at("layer01.k_proj"), Width::kCq2);
  EXPECT_EQ(widths->at("layer02.q_proj"), Width::kCq2);
  ASSERT_EQ(selection->sites, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(widths->at("engram1.tables"), Width::kCq3);
  EXPECT_EQ(widths->at("engram1.key_proj"), Width::kCq2);
}

TEST(BitMapParseTest, RefusesBadTextNamingTheEntry) {
  struct Case {
    std::string text;
    std::string message;
  };
  for (const Case& c :
       {Case{"attn=4,attn=2,default=2", "\"attn=2\": the key is given twice"},
        Case{"default=2,default=2", "\"default=2\": the key is given twice"},
        Case{"=4,default=2", "\"=4\": empty key"}, Case{"attn=4", "no default"}, Case{"", "empty"},
        Case{"attn=0,default=2", "\"attn=0\": the width is none of"},
        Case{"attn=5,default=2", "\"attn=5\": the width is none of"},
        Case{"attn=8,default=2", "\"attn=8\": the width is none of"},
        Case{"attn=2.0,default=2", "\"attn=2.0\": the width is none of"},
        Case{"attn=1.58 ,default=2", "\"attn=1.58 \": the width is none of"},
        Case{"attn=,default=2", "\"attn=\": the width is none of"},
        Case{"attn=4=4,default=2", "\"attn=4=4\": the width is none of"},
        Case{"attn=4,default=2,", "stray comma"}, Case{",default=2", "stray comma"},
        Case{"attn=4,,default=2", "stray comma"}, Case{" attn=4,default=2", "\" attn=4\""},
        Case{"attn =4,default=2", "\"attn =4\""}, Case{"attn,default=2", "\"attn\": no \"=\""}}) {
    EXPECT_THAT(BitMap::Parse(c.text),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.text;
  }
}

TEST(BitMapParseTest, TextIsParsedBackToItself) {
  const auto map = BitMap::Parse("default=1.58,attn=4,layer07.q_proj=1");
  ASSERT_OK(map);
  EXPECT_EQ(map->Text(), "attn=4,layer07.q_proj=1,default=1.58");
  EXPECT_EQ(BitMap::Uniform(Width::kCq3).Text(), "default=3");
  const auto again = BitMap::Parse(map->Text());
  ASSERT_OK(again);
  EXPECT_EQ(again->Text(), map->Text());
}

}  // namespace
}  // namespace needle::quant
