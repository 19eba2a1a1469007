// The rules for the header: tag, size, geometry that cannot run.

#include "format/header.h"

#include <limits>

#include "tests/format/broken_archive.h"

namespace needle::format {
namespace {

using ::needle::tests::StatusIs;

class HeaderTest : public BrokenArchiveTest {
 protected:
  void ExpectFieldRefused(std::string_view field, uint32_t value, const std::string& message) {
    bytes_ = good_;
    SetHeader(field, value);
    ExpectRefused(message);
  }
};

TEST_F(HeaderTest, FieldsStandWhereTheSpecificationPutsThem) {
  const auto fields = HeaderFields(Generation::kNeedle3);
  ASSERT_EQ(fields.size(), 49U);
  EXPECT_EQ(HeaderBytes(Generation::kNeedle3), 196U);
  const std::pair<const char*, uint32_t> rows[] = {{"tag", 0},
                                                   {"num_tensors", 4},
                                                   {"codebook_len", 8},
                                                   {"kv_window", 12},
                                                   {"kv_bits", 16},
                                                   {"vocab", 20},
                                                   {"out_vocab", 24},
                                                   {"d_model", 28},
                                                   {"num_heads", 32},
                                                   {"num_kv_heads", 36},
                                                   {"num_layers", 40},
                                                   {"qk_head_dim", 44},
                                                   {"v_head_dim", 48},
                                                   {"max_seq_len", 52},
                                                   {"hada_n", 56},
                                                   {"mhc_lanes", 60},
                                                   {"sliding_window", 64},
                                                   {"global_mask_lo", 68},
                                                   {"global_mask_hi", 72},
                                                   {"qkv_conv_taps", 76},
                                                   {"engram_slots", 80},
                                                   {"engram_sub_dim", 84},
                                                   {"num_engram_tables", 88},
                                                   {"engram_conv_taps", 92},
                                                   {"engram_conv_dilation", 96},
                                                   {"engram_seed_heads", 100},
                                                   {"num_engram_orders", 104},
                                                   {"engram_orders[0]", 108},
                                                   {"engram_orders[3]", 120},
                                                   {"num_engram_sites", 124},
                                                   {"engram_sites[0]", 128},
                                                   {"engram_sites[15]", 188},
                                                   {"rope_theta", 192}};
  for (const auto& [name, byte] : rows) EXPECT_EQ(HeaderOffset(good_, name), byte) << name;
  EXPECT_TRUE(fields.back().is_f32);
}

TEST_F(HeaderTest, Needle2FieldsStandWhereTheSpecificationPutsThem) {
  Use(MakeTinyArchive(Generation::kNeedle2));
  EXPECT_EQ(HeaderFields(Generation::kNeedle2).size(), 30U);
  EXPECT_EQ(HeaderBytes(Generation::kNeedle2), 120U);
  // In the order of the specification's sentence, four bytes each.
  const char* const names[] = {"tag",
                               "num_tensors",
                               "codebook_len",
                               "kv_window",
                               "kv_bits",
                               "vocab",
                               "d_model",
                               "num_heads",
                               "num_kv_heads",
                               "num_layers",
                               "head_dim",
                               "max_seq_len",
                               "hada_n",
                               "mhc_lanes",
                               "engram_slots",
                               "engram_sub_dim",
                               "num_engram_tables",
                               "engram_conv_taps",
                               "engram_conv_dilation",
                               "num_engram_orders",
                               "engram_orders[0]",
                               "engram_orders[1]",
                               "engram_orders[2]",
                               "engram_orders[3]",
                               "num_engram_sites",
                               "engram_sites[0]",
                               "engram_sites[1]",
                               "engram_sites[2]",
                               "engram_sites[3]",
                               "rope_theta"};
  uint32_t byte = 0;
  for (const char* name : names) {
    EXPECT_EQ(HeaderOffset(good_, name), byte) << name;
    byte += 4;
  }
}

TEST_F(HeaderTest, Needle2GeometrySaysWhatItsHeaderLeavesOut) {
  Use(MakeTinyArchive(Generation::kNeedle2));
  const auto header = ParseHeader(good_);
  ASSERT_OK(header);
  EXPECT_EQ(header->geometry, TinyGeometry(Generation::kNeedle2));
  EXPECT_EQ(header->geometry.v_head_dim, header->geometry.qk_head_dim);
  EXPECT_EQ(header->geometry.out_vocab, header->geometry.vocab);
}

TEST_F(HeaderTest, ValuesAreShownPerField) {
  const auto header = ParseHeader(good_);
  ASSERT_OK(header);
  const auto values = HeaderValues(*header);
  ASSERT_EQ(values.size(), 49U);
  EXPECT_EQ(values[0], "0x05E12A84");
  EXPECT_EQ(values[2], "28");
  EXPECT_EQ(values[33], "1");  // engram_sites[1]
  EXPECT_EQ(values[34], "0");
  EXPECT_EQ(values[48], "10000");
}

TEST_F(HeaderTest, RejectsAnUnknownTag) {
  SetHeader("tag", 0x46554747);
  ExpectRefused(
      "not a .cact archive: tag 0x46554747, want 0x05E12A84 (Needle 3) or 0x05E12A83 (Needle 2)");
}

TEST_F(HeaderTest, RefusesTheOlderNeedle2LayoutByName) {
  SetHeader("tag", 0x05E12A82);
  ExpectRefused(
      "tag: 0x05E12A82, a Needle 2 archive written by an older package; rebuild it from its "
      "checkpoint",
      absl::StatusCode::kUnimplemented);
}

TEST_F(HeaderTest, RejectsAFileWithoutRoomForATag) {
  bytes_.resize(3);
  ExpectRefused("not a .cact archive: 3 bytes, too short for a tag");
}

TEST_F(HeaderTest, RejectsAFileShorterThanItsHeader) {
  bytes_.resize(195);
  ExpectRefused("header: the file has 195 bytes, want at least 196");
}

TEST_F(HeaderTest, RejectsZeroDimensions) {
  for (const char* field :
       {"vocab", "d_model", "num_heads", "num_kv_heads", "num_layers", "qk_head_dim", "v_head_dim",
        "max_seq_len", "mhc_lanes", "engram_slots", "engram_sub_dim", "num_engram_tables",
        "engram_conv_taps", "engram_conv_dilation"}) {
    ExpectFieldRefused(field, 0, std::string(field) + ": 0, want at least 1");
  }
}

TEST_F(HeaderTest, RejectsHeadsThatAreNoMultipleOfKvHeads) {
  ExpectFieldRefused("num_kv_heads", 3, "num_heads: 2, want a multiple of num_kv_heads, 3");
}

TEST_F(HeaderTest, RejectsOddQkHeadDim) {
  ExpectFieldRefused("qk_head_dim", 3, "qk_head_dim: 3, want an even number");
}

TEST_F(HeaderTest, RejectsOddHeadDimOfNeedle2ByItsName) {
  Use(MakeTinyArchive(Generation::kNeedle2));
  ExpectFieldRefused("head_dim", 5, "head_dim: 5, want an even number");
}

TEST_F(HeaderTest, RejectsHadaNThatIsNotTheNextPowerOfTwo) {
  for (const uint32_t value : {0U, 4U, 7U, 16U}) {
    ExpectFieldRefused("hada_n", value,
                       "hada_n: " + std::to_string(value) +
                           ", want 8, the smallest power of two from d_model 6 on");
  }
}

TEST_F(HeaderTest, RejectsDModelWithoutAPowerOfTwoAboveIt) {
  ExpectFieldRefused("d_model", 0x80000001, "d_model: 2147483649, want at most 2147483648");
}

TEST_F(HeaderTest, RejectsASiteAtOrPastNumLayers) {
  ExpectFieldRefused("engram_sites[1]", 2, "engram_sites[1]: 2, want a layer below num_layers, 2");
}

TEST_F(HeaderTest, RejectsAGlobalBitAtOrPastNumLayers) {
  ExpectFieldRefused(
      "global_mask_lo", 6,
      "global_mask_lo: bit 2 of the mask is set, want only bits below num_layers, 2");
  ExpectFieldRefused(
      "global_mask_hi", 0x80000000,
      "global_mask_hi: bit 63 of the mask is set, want only bits below num_layers, 2");
}

TEST_F(HeaderTest, RejectsSitesThatDoNotAscend) {
  ExpectFieldRefused("engram_sites[1]", 0,
                     "engram_sites[1]: 0, want more than the site before it, 0");
}

TEST_F(HeaderTest, RejectsMoreThan64Layers) {
  ExpectFieldRefused("num_layers", 65, "num_layers: 65, want at most 64");
}

TEST_F(HeaderTest, RejectsOrdersOutside1To4) {
  ExpectFieldRefused("engram_orders[0]", 0, "engram_orders[0]: 0, want 1 to 4");
  ExpectFieldRefused("engram_orders[1]", 5, "engram_orders[1]: 5, want 1 to 4");
}

TEST_F(HeaderTest, RejectsNoOrdersForItsSites) {
  SetHeader("engram_orders[0]", 0);
  SetHeader("engram_orders[1]", 0);
  SetHeader("num_engram_orders", 0);
  ExpectRefused("num_engram_orders: 0, want 1 to 4");
}

TEST_F(HeaderTest, RejectsMoreOrdersThanTheHeaderHolds) {
  ExpectFieldRefused("num_engram_orders", 5, "num_engram_orders: 5, want at most 4");
}

TEST_F(HeaderTest, RejectsMoreSitesThanTheHeaderHolds) {
  ExpectFieldRefused("num_engram_sites", 17, "num_engram_sites: 17, want at most 16");
  Use(MakeTinyArchive(Generation::kNeedle2));
  ExpectFieldRefused("num_engram_sites", 5, "num_engram_sites: 5, want at most 4");
}

TEST_F(HeaderTest, RejectsUnusedEntriesThatAreNotZero) {
  ExpectFieldRefused("engram_orders[2]", 4,
                     "engram_orders[2]: 4, want 0, as the entry is not used");
  ExpectFieldRefused("engram_sites[15]", 1,
                     "engram_sites[15]: 1, want 0, as the entry is not used");
}

TEST_F(HeaderTest, RejectsOutVocabAboveVocab) {
  ExpectFieldRefused("out_vocab", 9, "out_vocab: 9, want at most vocab, 8");
}

TEST_F(HeaderTest, RejectsTablesThatDoNotDivideAmongOrders) {
  ExpectFieldRefused("num_engram_tables", 3,
                     "num_engram_tables: 3, want a multiple of num_engram_orders, 2");
}

TEST_F(HeaderTest, RejectsKvBitsThatNoCacheHas) {
  for (const uint32_t value : {0U, 1U, 5U, 16U}) {
    ExpectFieldRefused("kv_bits", value,
                       "kv_bits: " + std::to_string(value) + ", want 2, 3, 4 or 8");
  }
}

TEST_F(HeaderTest, RejectsRopeThetaThatIsNoPositiveNumber) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  const std::string want = ", want a finite number above 0";
  ExpectFieldRefused("rope_theta", bits(0), "rope_theta: 0" + want);
  ExpectFieldRefused("rope_theta", bits(-1), "rope_theta: -1" + want);
  ExpectFieldRefused("rope_theta", bits(std::numeric_limits<float>::infinity()),
                     "rope_theta: inf" + want);
  ExpectFieldRefused("rope_theta", bits(std::numeric_limits<float>::quiet_NaN()),
                     "rope_theta: nan" + want);
}

TEST_F(HeaderTest, RejectsDimensionsWhoseProductOverflows32Bits) {
  const std::string want = ": more than 32 bits hold, want a dimension of at most 4294967295";
  ExpectFieldRefused("qk_head_dim", 0xFFFFFFFE, "num_heads * qk_head_dim" + want);
  ExpectFieldRefused("v_head_dim", 0xFFFFFFFF, "num_heads * v_head_dim" + want);
  ExpectFieldRefused("mhc_lanes", 0x40000000, "mhc_lanes * d_model" + want);
  ExpectFieldRefused("mhc_lanes", 0x10000, "num_layers * mhc_lanes * mhc_lanes" + want);
  ExpectFieldRefused("engram_slots", 0x80000000, "num_engram_tables * engram_slots" + want);
  ExpectFieldRefused("engram_sub_dim", 0x80000000, "num_engram_tables * engram_sub_dim" + want);
}

TEST_F(HeaderTest, IgnoresEngramFieldsWithoutSites) {
  Geometry geometry = TinyGeometry(Generation::kNeedle3);
  geometry.engram_sites.clear();
  geometry.engram_orders.clear();
  geometry.engram_slots = geometry.num_engram_tables = geometry.engram_conv_taps = 0;
  EXPECT_OK(CheckGeometry(geometry));
}

// What no header holds, but a config may say.
TEST_F(HeaderTest, GeometryHasTheContainersLimits) {
  Geometry geometry = TinyGeometry(Generation::kNeedle3);
  geometry.engram_orders = {1, 2, 3, 4, 4};
  EXPECT_THAT(CheckGeometry(geometry),
              StatusIs(absl::StatusCode::kDataLoss, "num_engram_orders: 5, want 1 to 4"));
  geometry = TinyGeometry(Generation::kNeedle2);
  geometry.num_layers = 5;
  geometry.engram_sites = {0, 1, 2, 3, 4};
  EXPECT_THAT(CheckGeometry(geometry),
              StatusIs(absl::StatusCode::kDataLoss, "num_engram_sites: 5, want at most 4"));
}

TEST_F(HeaderTest, AcceptsTheLargestMask) {
  Geometry geometry = TinyGeometry(Generation::kNeedle3);
  geometry.num_layers = 64;
  geometry.global_mask = UINT64_MAX;
  EXPECT_OK(CheckGeometry(geometry));
}

}  // namespace
}  // namespace needle::format
