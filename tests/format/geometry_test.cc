// Numbers that follow from a geometry alone: ladder, KV window, permutations.

#include "format/geometry.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "format/archive.h"
#include "format/hada_permutation.h"
#include "format/kv_window.h"
#include "format/layer_selection.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::format {
namespace {

using ::needle::tests::Testdata;

// The shipped Needle 3 model, from the specification's header table.
Geometry ShippedNeedle3() {
  Geometry g;
  g.kv_window = 256;
  g.vocab = g.out_vocab = 8192;
  g.d_model = 768;
  g.num_heads = 12;
  g.num_kv_heads = 2;
  g.num_layers = 20;
  g.qk_head_dim = 48;
  g.v_head_dim = 64;
  g.max_seq_len = 8192;
  g.hada_n = 1024;
  g.mhc_lanes = 4;
  g.sliding_window = 1024;
  g.global_mask = 1U << 4 | 1U << 9 | 1U << 14 | 1U << 19;
  g.qkv_conv_taps = 3;
  g.engram_slots = 18432;
  g.engram_sub_dim = 128;
  g.num_engram_tables = 6;
  g.engram_conv_taps = 4;
  g.engram_conv_dilation = 3;
  g.engram_orders = {2, 3};
  g.engram_sites = {3, 7, 11, 15, 19};
  g.rope_theta = 100000;
  return g;
}

// The shipped Needle 2 model, from the specification's text.
Geometry ShippedNeedle2() {
  Geometry g;
  g.generation = Generation::kNeedle2;
  g.kv_window = 256;
  g.vocab = g.out_vocab = 8192;
  g.d_model = 512;
  g.num_heads = 8;
  g.num_kv_heads = 4;
  g.num_layers = 27;
  g.qk_head_dim = g.v_head_dim = 64;
  g.max_seq_len = 2048;
  g.hada_n = 512;
  g.mhc_lanes = 4;
  g.engram_slots = 8192;
  g.engram_sub_dim = 128;
  g.num_engram_tables = 4;
  g.engram_conv_taps = 4;
  g.engram_conv_dilation = 3;
  g.engram_orders = {2, 3};
  g.engram_sites = {2, 15};
  g.rope_theta = 100000;
  return g;
}

TEST(LadderTest, OrderOf20BlocksIsTheSpecifications) {
  EXPECT_EQ(LadderOrder(20), (std::vector<uint32_t>{0,  19, 9, 14, 4, 6, 11, 16, 2,  7,
                                                    12, 17, 1, 3,  5, 8, 10, 13, 15, 18}));
}

TEST(LadderTest, SmallestOrders) {
  EXPECT_EQ(LadderOrder(1), (std::vector<uint32_t>{0}));
  EXPECT_EQ(LadderOrder(2), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(LadderOrder(3), (std::vector<uint32_t>{0, 2, 1}));
}

// docs/deviations.md, "Slices of slices": an archive does not carry its ladder's order.
TEST(LadderTest, OrderOfASliceIsNotAlwaysThatOfTheFullModel) {
  const auto of_full = LayerSelection::Make(ShippedNeedle3(), 4, {});
  const auto five = LayerSelection::Make(ShippedNeedle3(), 5, {});
  ASSERT_OK(of_full);
  ASSERT_OK(five);
  EXPECT_EQ(of_full->layers, (std::vector<uint32_t>{0, 9, 14, 19}));
  EXPECT_EQ(five->layers, (std::vector<uint32_t>{0, 4, 9, 14, 19}));
  const auto of_five = LayerSelection::Make(five->geometry, 4, {});
  ASSERT_OK(of_five);
  EXPECT_EQ(of_five->layers, (std::vector<uint32_t>{0, 1, 2, 4}));
  // The order in which the full model takes those five gives the full model's depth 4.
  const auto ordered =
      LayerSelection::Make(five->geometry, 4, std::vector<uint32_t>{0, 4, 2, 3, 1});
  ASSERT_OK(ordered);
  EXPECT_EQ(ordered->layers, (std::vector<uint32_t>{0, 2, 3, 4}));
}

TEST(LadderTest, OneLayerIsAWholeModel) {
  Geometry geometry = ShippedNeedle3();
  geometry.num_layers = 1;
  geometry.global_mask = 1;
  geometry.engram_sites = {0};
  const auto selection = LayerSelection::Make(geometry, 1, {});
  ASSERT_OK(selection);
  EXPECT_EQ(selection->geometry, geometry);
}

TEST(LadderTest, RenumbersGlobalsAndSites) {
  const auto selection = LayerSelection::Make(ShippedNeedle3(), 8, {});
  ASSERT_OK(selection);
  // The first eight of the order above, sorted.
  EXPECT_EQ(selection->layers, (std::vector<uint32_t>{0, 4, 6, 9, 11, 14, 16, 19}));
  EXPECT_EQ(selection->geometry.num_layers, 8U);
  EXPECT_EQ(selection->geometry.global_mask, 1U << 1 | 1U << 3 | 1U << 5 | 1U << 7);
  EXPECT_EQ(selection->sites, (std::vector<uint32_t>{2, 4}));  // layers 11 and 19
  EXPECT_EQ(selection->geometry.engram_sites, (std::vector<uint32_t>{4, 7}));
}

TEST(KvWindowTest, ShippedModelHas3456ByBudgetAnd256InTheHeader) {
  EXPECT_EQ(BudgetKvWindow(ShippedNeedle3()), 3456U);
  EXPECT_EQ(EffectiveKvWindow(ShippedNeedle3(), 256), 256U);
  EXPECT_EQ(EffectiveKvWindow(ShippedNeedle3(), 0), 3456U);
  EXPECT_EQ(EffectiveKvWindow(ShippedNeedle3(), 5000), 3456U);
}

// By hand: kv 256, a layer 2 * 256 + 8 * 8 = 576 bytes, a site 512 + 4 * 16 = 576;
// 27 * 576 + 2 * 576 = 16704; 12058624 / 16704 = 721, rounded down to 704.
TEST(KvWindowTest, ShippedNeedle2) { EXPECT_EQ(BudgetKvWindow(ShippedNeedle2()), 704U); }

// kd 96 + 4 * 3, vd 128 + 4 * 4: a layer 252 bytes; a site 768 + 4 * 24 = 864.
TEST(KvWindowTest, WithoutASlidingWindowEveryLayerHoldsTheWindow) {
  Geometry geometry = ShippedNeedle3();
  geometry.sliding_window = 0;
  // 12058624 / (20 * 252 + 5 * 864) = 1288, rounded down to 1280.
  EXPECT_EQ(BudgetKvWindow(geometry), 1280U);
}

TEST(KvWindowTest, WithoutAGlobalLayerTheWindowIsAllOrLocal) {
  Geometry geometry = ShippedNeedle3();
  geometry.global_mask = 0;
  EXPECT_EQ(BudgetKvWindow(geometry), 8192U);  // (20 * 252 + 5 * 864) * 1024 = 9584640 fit
  geometry.sliding_window = 1289;              // 9360 * 1289 = 12065040 do not
  EXPECT_EQ(BudgetKvWindow(geometry), 1289U);
  geometry.d_model = 1'000'000;
  geometry.sliding_window = 100;
  EXPECT_EQ(BudgetKvWindow(geometry), 160U);
}

TEST(KvWindowTest, HasAFloorOf160WhenLocalLayersExceedTheBudget) {
  Geometry geometry = ShippedNeedle3();
  geometry.sliding_window = 2048;  // (16 * 252 + 5 * 864) * 2048 = 17104896
  EXPECT_EQ(BudgetKvWindow(geometry), 160U);
}

TEST(KvWindowTest, StaysDefinedForTheLargestGeometry) {
  Geometry geometry = ShippedNeedle3();
  geometry.num_layers = 64;
  geometry.global_mask = 1;
  geometry.num_kv_heads = geometry.num_heads = 1;
  geometry.qk_head_dim = geometry.v_head_dim = UINT32_MAX - 1;
  geometry.max_seq_len = geometry.sliding_window = UINT32_MAX;
  EXPECT_EQ(BudgetKvWindow(geometry), 160U);
}

TEST(KvWindowTest, SliceKeepsAConfiguredWindowAndDerivesABudgetedOneAnew) {
  Geometry full = ShippedNeedle3();
  Geometry sliced = full;
  sliced.num_layers = 8;
  sliced.global_mask = 1U << 1 | 1U << 3 | 1U << 5 | 1U << 7;
  sliced.engram_sites = {4, 7};
  // fixed (4 * 252 + 2 * 864) * 1024 = 2801664; (12058624 - 2801664) / 1008 = 9183, above the
  // longest sequence.
  EXPECT_EQ(BudgetKvWindow(sliced), 8192U);
  EXPECT_EQ(SlicedKvWindow(full, sliced), 256U);
  full.kv_window = 3456;
  EXPECT_EQ(SlicedKvWindow(full, sliced), 8192U);
  full.kv_window = 0;
  EXPECT_EQ(SlicedKvWindow(full, sliced), 0U);
}

// The archives hold the permutations as floats; n3-odd was made with ladder_widths.
TEST(HadaPermutationTest, EqualsTheReferencesArchives) {
  for (const auto& [name, split] :
       {std::pair("n3-small", false), {"n3-pad", false}, {"n3-odd", true}}) {
    const auto archive = Archive::Open(Testdata(std::string("golden/") + name + "/cq2.cact"));
    ASSERT_OK(archive);
    for (const auto& [role, seed] :
         {std::pair(TensorRole::kHadaP1, kHadaP1Seed), {TensorRole::kHadaP2, kHadaP2Seed}}) {
      const auto made = HadaPermutation(archive->geometry().hada_n, seed, split);
      EXPECT_EQ(std::vector<float>(made.begin(), made.end()),
                archive->Floats(*archive->schema().Find({role, 0})))
          << name;
    }
  }
}

// Number of tensors and megabytes of what `select` takes.
template <typename Select>
std::pair<size_t, std::string> Total(const ArchiveLayout& layout, Select select) {
  size_t count = 0;
  uint64_t bytes = 0;
  for (const Record& record : layout.records) {
    if (!select(record)) continue;
    ++count;
    bytes += record.num_bytes;
  }
  return {count, absl::StrFormat("%.2f", static_cast<double>(bytes) / 1e6)};
}

size_t CountOf(const Schema& schema, DType dtype) {
  size_t count = 0;
  for (const TensorSpec& spec : schema.tensors()) count += spec.dtype == dtype ? 1 : 0;
  return count;
}

// "581 tensors, of them 115 CQ2 with 29.90 MB, 7 CQ4, 456 FP16 with 1.25 MB, 2 FP32, 1 RAW" at the
// shipped scheme, with the one head that it is exported with.
TEST(SchemaTest, ShippedNeedle3HasTheSpecificationsTensors) {
  const auto schema =
      Schema::Make(ShippedNeedle3(), {{HeadKind::kConfidence, 4, 4, 1}}, /*has_tokenizer=*/true);
  ASSERT_OK(schema);
  EXPECT_EQ(schema->tensors().size(), 581U);
  EXPECT_EQ(CountOf(*schema, DType::kF16), 456U);
  EXPECT_EQ(CountOf(*schema, DType::kF32), 2U);
  EXPECT_EQ(CountOf(*schema, DType::kRaw), 1U);
  std::vector<Width> widths;
  for (const TensorSpec& spec : schema->tensors()) {
    const bool is_wide = spec.name == "embedding" || spec.name.starts_with("mhc") ||
                         spec.name.starts_with("confidence");
    widths.push_back(is_wide ? Width::kCq4 : Width::kCq2);
  }
  const auto layout = ArchiveLayout::Make(ShippedNeedle3(), *schema, widths, 7587);
  ASSERT_OK(layout);
  EXPECT_EQ(Total(*layout, [](const Record& record) { return record.bits == 2; }),
            std::pair(size_t{115}, std::string("29.90")));
  EXPECT_EQ(Total(*layout, [](const Record& record) { return record.bits == 4; }).first, 7U);
  EXPECT_EQ(Total(*layout, [](const Record& record) { return record.dtype == 1; }),
            std::pair(size_t{456}, std::string("1.25")));
}

// "145 CQ (141 CQ2 + 4 CQ4) and 259 FP16 tensors"
TEST(SchemaTest, ShippedNeedle2HasTheSpecificationsTensors) {
  const auto schema =
      Schema::Make(ShippedNeedle2(),
                   {{HeadKind::kContrastive, 4, 0, 128}, {HeadKind::kConfidence, 8, 0, 1}}, true);
  ASSERT_OK(schema);
  EXPECT_EQ(CountOf(*schema, DType::kCq), 145U);
  EXPECT_EQ(CountOf(*schema, DType::kF16), 259U);
}

TEST(SchemaTest, RefusesHeadsThatNoArchiveHas) {
  using ::needle::tests::StatusIs;
  const auto make = [](const Geometry& geometry, std::vector<HeadShape> heads) {
    return Schema::Make(geometry, std::move(heads), false);
  };
  constexpr auto kCode = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(make(ShippedNeedle3(), {{HeadKind::kContrastive, 4, 4, 128}}),
              StatusIs(kCode, "contrastive_head: Needle 3 has no such head"));
  EXPECT_THAT(make(ShippedNeedle2(), {{HeadKind::kRouter, 4, 0, 3}}),
              StatusIs(kCode, "router_head: Needle 2 has no such head"));
  const HeadShape confidence = {HeadKind::kConfidence, 4, 4, 1};
  const std::string order = "given twice or out of the manifest's order";
  EXPECT_THAT(make(ShippedNeedle3(), {confidence, confidence}),
              StatusIs(kCode, "confidence_head: " + order));
  EXPECT_THAT(make(ShippedNeedle3(), {confidence, {HeadKind::kEmbedding, 4, 4, 128}}),
              StatusIs(kCode, "embedding_head: " + order));
  EXPECT_THAT(make(ShippedNeedle3(), {{HeadKind::kEmbedding, 4, 0, 128}}),
              StatusIs(kCode, "embedding_head: 0 queries, want at least 1"));
}

TEST(SchemaTest, FindsTensorsByIdAndByName) {
  const auto schema = Schema::Make(ShippedNeedle3(), {{HeadKind::kConfidence, 4, 4, 1}}, true);
  ASSERT_OK(schema);
  for (size_t i = 0; i < schema->tensors().size(); ++i) {
    EXPECT_EQ(schema->Find(schema->tensors()[i].id), i);
    EXPECT_EQ(schema->FindName(schema->tensors()[i].name), i);
  }
  EXPECT_EQ(schema->Find({TensorRole::kQProj, 20}), std::nullopt);
  EXPECT_EQ(schema->FindName("layer7.q_proj"), std::nullopt);
}

}  // namespace
}  // namespace needle::format
