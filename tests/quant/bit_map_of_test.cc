#include "quant/bit_map_of.h"

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "format/archive.h"
#include "gtest/gtest.h"
#include "quant/bit_map.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::quant {
namespace {

using format::Width;

format::Archive OpenGolden(const std::string& name) {
  auto archive = format::Archive::Open(tests::Testdata(name));
  EXPECT_OK(archive);
  return *std::move(archive);
}

std::vector<Width> WidthsOf(const format::Archive& archive) {
  std::vector<Width> widths;
  for (const format::Record& record : archive.records()) {
    widths.push_back(format::WidthFromRecordBits(record.bits).value_or(Width::kCq4));
  }
  return widths;
}

std::string TextOf(const std::string& name) {
  const format::Archive archive = OpenGolden(name);
  return BitMapTextOf(archive.schema(), WidthsOf(archive));
}

// As info.json of each case has them.
TEST(BitMapOfTest, TellsTheSchemesOfGoldenArchives) {
  EXPECT_EQ(TextOf("fixture/cq2.cact"), kShippedScheme);
  EXPECT_EQ(TextOf("golden/n2-small/cq2.cact"), kShippedScheme);
  EXPECT_EQ(TextOf("golden/n3-odd/cq4.cact"), "default=4");
  EXPECT_EQ(TextOf("golden/n2-small/ternary.cact"), "embedding=4,default=1.58");
  EXPECT_EQ(TextOf("golden/n3-odd/binary.cact"),
            "embedding=4,attn.v_proj=3,engram0.tables=2,default=1");
}

TEST(BitMapOfTest, NamesWhatDiffers) {
  const format::Archive archive = OpenGolden("golden/n3-odd/cq2.cact");
  std::vector<Width> widths = WidthsOf(archive);
  const auto set = [&](const std::string& name, Width width) {
    widths[archive.schema().FindName(name).value()] = width;
  };
  set("mhc_phi_res", Width::kCq3);
  set("layer03.v_proj", Width::kBinary);
  set("engram1.tables", Width::kTernary);
  EXPECT_EQ(BitMapTextOf(archive.schema(), widths),
            "embedding=4,layer03.v_proj=1,mhc_phi_pre=4,mhc_phi_post=4,mhc_phi_res=3,"
            "engram1.tables=1.58,default=2");
}

// Whatever the widths are, the text parses and gives them back.
TEST(BitMapOfTest, GivesTheWidthsBack) {
  std::mt19937 random(11);
  for (const char* name : {"golden/n3-odd/cq2.cact", "golden/n2-small/cq2.cact"}) {
    const format::Archive archive = OpenGolden(name);
    std::vector<uint32_t> layers(archive.geometry().num_layers);
    std::iota(layers.begin(), layers.end(), 0U);
    std::vector<uint32_t> sites(archive.geometry().engram_sites.size());
    std::iota(sites.begin(), sites.end(), 0U);
    const InputNumbers input{layers, sites, archive.geometry().num_layers,
                             static_cast<uint32_t>(sites.size())};
    for (int round = 0; round < 50; ++round) {
      std::vector<Width> widths = WidthsOf(archive);
      for (size_t i = 0; i < widths.size(); ++i) {
        const format::TensorSpec& spec = archive.schema().tensors()[i];
        if (spec.dtype != format::DType::kCq || format::IsHeadRole(spec.id.role)) {
          widths[i] = Width::kCq4;  // as Resolve has it
        } else {
          widths[i] = format::kAllWidths[random() % std::size(format::kAllWidths)];
        }
      }
      const auto map = BitMap::Parse(BitMapTextOf(archive.schema(), widths));
      ASSERT_OK(map);
      const auto resolved = map->Resolve(archive.schema(), input);
      ASSERT_OK(resolved);
      EXPECT_EQ(*resolved, widths) << map->Text();
    }
  }
}

}  // namespace
}  // namespace needle::quant
