// Configs, trees and what a plan says of them before anything is written.
#include <string>
#include <vector>

#include "converter/leaf_map.h"
#include "converter/model_config.h"
#include "format/archive.h"
#include "gtest/gtest.h"
#include "tests/support/build_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_checkpoint.h"

namespace needle::converter {
namespace {

using base::Json;
using format::Generation;
using format::HeadKind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::StatusIs;
using tests::TempFolder;
using tests::TestCheckpoint;
using tests::Testdata;

// The specification's defaults for keys that a config lacks.
TEST(ModelConfigTest, MissingKeysOfNeedle3) {
  const auto config = ModelConfig::FromJson({{"num_layers", 12}});
  ASSERT_OK(config);
  const format::Geometry& g = config->geometry;
  EXPECT_EQ(g.generation, Generation::kNeedle3);
  EXPECT_EQ(g.vocab, 16384U);
  EXPECT_EQ(g.out_vocab, 0U);
  EXPECT_EQ(g.d_model, 768U);
  EXPECT_EQ(g.num_heads, 12U);
  EXPECT_EQ(g.num_kv_heads, 2U);
  EXPECT_EQ(g.qk_head_dim, 64U);  // d_model / num_heads
  EXPECT_EQ(g.v_head_dim, 64U);
  EXPECT_EQ(g.max_seq_len, 4096U);
  EXPECT_EQ(g.rope_theta, 100000.0F);
  EXPECT_EQ(g.sliding_window, 0U);
  EXPECT_EQ(g.global_mask, 0U);
  EXPECT_EQ(g.qkv_conv_taps, 0U);
  EXPECT_EQ(g.engram_seed_heads, 0U);
  EXPECT_EQ(g.engram_slots, 18432U);
  EXPECT_THAT(g.engram_orders, ElementsAre(2, 3));
  EXPECT_THAT(g.engram_sites, ElementsAre(3, 7, 11));  // those of (3, 7, 11, 15, 19) that exist
  EXPECT_EQ(g.num_engram_tables, 6U);                  // 2 orders of floor(768 / 256) heads
  EXPECT_EQ(g.engram_sub_dim, 128U);
  EXPECT_EQ(g.engram_conv_taps, 4U);
  EXPECT_EQ(g.engram_conv_dilation, 3U);
  EXPECT_EQ(g.hada_n, 1024U);
  EXPECT_EQ(g.mhc_lanes, 4U);
  EXPECT_EQ(g.kv_bits, 8U);
  EXPECT_EQ(config->heads[static_cast<size_t>(HeadKind::kEmbedding)].out, 128U);
  EXPECT_EQ(config->heads[static_cast<size_t>(HeadKind::kRouter)].queries, 4U);
  EXPECT_FALSE(config->split_permutations);
}

TEST(ModelConfigTest, MissingKeysOfNeedle2) {
  const auto config = ModelConfig::FromJson({{"attn_dim", 0}, {"num_layers", 16}});
  ASSERT_OK(config);
  const format::Geometry& g = config->geometry;
  EXPECT_EQ(g.generation, Generation::kNeedle2);
  EXPECT_EQ(g.vocab, 8192U);
  EXPECT_EQ(g.out_vocab, 8192U);
  EXPECT_EQ(g.d_model, 512U);
  EXPECT_EQ(g.qk_head_dim, 64U);  // attn_dim 0: d_model / num_heads
  EXPECT_EQ(g.num_kv_heads, 4U);
  EXPECT_EQ(g.max_seq_len, 2048U);
  EXPECT_EQ(g.engram_slots, 8192U);
  EXPECT_THAT(g.engram_sites, ElementsAre(2, 15));
  EXPECT_EQ(g.num_engram_tables, 4U);
  EXPECT_EQ(config->heads[static_cast<size_t>(HeadKind::kContrastive)].out, 128U);
}

TEST(ModelConfigTest, AttnDimWithQkHeadDimIsNeedle3) {
  const auto config = ModelConfig::FromJson({{"attn_dim", 512}, {"qk_head_dim", 48}});
  ASSERT_OK(config);
  EXPECT_EQ(config->geometry.generation, Generation::kNeedle3);
}

TEST(ModelConfigTest, KvBitsZeroMeansEight) {
  const auto config = ModelConfig::FromJson({{"kv_bits", 0}});
  ASSERT_OK(config);
  EXPECT_EQ(config->geometry.kv_bits, 8U);
}

TEST(ModelConfigTest, EveryKeyOfTheTableIsRead) {
  for (const Generation generation : {Generation::kNeedle2, Generation::kNeedle3}) {
    for (const ConfigKey& key : ConfigKeys(generation)) {
      Json config = {{std::string(key.name), "text"}};
      if (generation == Generation::kNeedle2 && !config.contains("attn_dim"))
        config["attn_dim"] = 0;
      EXPECT_THAT(
          ModelConfig::FromJson(config),
          StatusIs(absl::StatusCode::kDataLoss,
                   AllOf(HasSubstr("\"" + std::string(key.name) + "\""), HasSubstr("text"))));
    }
  }
}

TEST(ModelConfigTest, ValuesThatCannotBeAreNamed) {
  const std::vector<std::pair<std::string, Json>> cases = {{"d_model", 0},
                                                           {"d_model", -768},
                                                           {"d_model", 768.5},
                                                           {"num_heads", 0},
                                                           {"num_layers", 65},
                                                           {"vocab_size", 5000000000U},
                                                           {"num_kv_heads", 5},
                                                           {"mhc_lanes", 0},
                                                           {"engram_orders", {2, 9}},
                                                           {"engram_layers", {7, 3}},
                                                           {"engram_layers", {20}},
                                                           {"global_layers", {20}},
                                                           {"global_layers", {-1}},
                                                           {"out_vocab", 20000},
                                                           {"engram_heads", 4000},
                                                           {"qk_head_dim", 47},
                                                           {"max_seq_len", nullptr}};
  for (const auto& [key, value] : cases) {
    EXPECT_EQ(ModelConfig::FromJson({{key, value}}).status().code(), absl::StatusCode::kDataLoss)
        << key << " " << value;
  }
  EXPECT_THAT(
      ModelConfig::FromJson({{"num_layers", 3}, {"engram_layers", {1}}, {"ladder_order", {0, 2}}}),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("ladder_order")));
}

TEST(ModelConfigTest, VariantsThatNoArchiveHoldsAreRefusedByName) {
  const auto refused = [](const char* key, const Json& value) {
    EXPECT_THAT(ModelConfig::FromJson({{key, value}}),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(key)));
  };
  refused("attention_gate", "headwise");
  refused("hada_factor_mode", "per_layer");
  refused("engram_bank_ids", {1});
  refused("cla_pairs", Json::array({Json::array({0, 1})}));
  EXPECT_OK(ModelConfig::FromJson({{"attention_gate", "elementwise"},
                                   {"hada_factor_mode", "shared"},
                                   {"engram_bank_ids", Json::array()},
                                   {"cla_pairs", Json::array()},
                                   {"whatever_else", 7}}));
}

class PlanTest : public ::testing::Test {
 protected:
  absl::StatusOr<TensorPlan> Plan(const PlanOptions& options = tests::ShippedOptions()) {
    checkpoint_.Write(folder_.File("c.safetensors"));
    return tests::MakePlan(folder_.File("c.safetensors"), options);
  }

  TempFolder folder_;
  TestCheckpoint checkpoint_ = TestCheckpoint::Load("golden/n3-small/checkpoint.safetensors");
};

TEST_F(PlanTest, ListsAllThatIsMissingMisshapenOrOfIntegerType) {
  checkpoint_.tensors.erase("stack/final_norm/scale");
  checkpoint_.tensors["embedding/embedding"].shape = {256, 704};
  checkpoint_.tensors[tests::kQProjLeaf].dtype = "I32";
  checkpoint_.tensors.erase("engrams_1/taps");
  EXPECT_THAT(Plan(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("\"stack/final_norm/scale\" is missing"),
                             HasSubstr("\"embedding/embedding\" is [256, 704], want [704, 256]"),
                             HasSubstr("q_proj/kernel\" is of type I32"),
                             HasSubstr("\"engrams_1/taps\" is missing"))));
}

TEST_F(PlanTest, HeadWithoutAllOfItsLeavesIsRefused) {
  checkpoint_.tensors.erase("router_head/query");
  EXPECT_THAT(Plan(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("\"router_head/query\" is missing")));
}

TEST_F(PlanTest, TreeWithoutHeadsHasNone) {
  std::erase_if(checkpoint_.tensors,
                [](const auto& entry) { return entry.first.find("_head/") != std::string::npos; });
  const auto plan = Plan();
  ASSERT_OK(plan);
  EXPECT_TRUE(plan->schema().heads().empty());
}

TEST_F(PlanTest, MissingBiasIsZeroAndMissingCalibrationTheTriple) {
  checkpoint_.tensors.erase("router_head/calibration");
  checkpoint_.tensors.erase("router_head/proj/bias");
  const auto plan = Plan();
  ASSERT_OK(plan);
  const auto values = [&](const char* name) {
    return *ReadTensor(*plan, plan->schema(), *plan->schema().FindName(name));
  };
  EXPECT_THAT(values("router_head.calibration"), ElementsAre(0.90F, 0.00F, 0.60F));
  EXPECT_THAT(values("router_head.bias"), ElementsAre(0.0F, 0.0F, 0.0F));
}

TEST_F(PlanTest, UnknownLeafIsAWarningAndUnderStrictAnError) {
  checkpoint_.AddF32("stack/novelty", {1}, {1.0F});
  checkpoint_.AddF32("mtp_block/scale", {1}, {1.0F});
  PlanOptions options = tests::ShippedOptions();
  const auto plan = Plan(options);
  ASSERT_OK(plan);
  EXPECT_THAT(plan->warnings(), ElementsAre(HasSubstr("\"stack/novelty\"")));
  options.strict = true;
  EXPECT_THAT(Plan(options), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("stack/novelty")));
}

TEST_F(PlanTest, TreesThatNoArchiveHoldsAreRefusedByName) {
  for (const auto& [leaf, reason] : std::vector<std::pair<std::string, std::string>>{
           {"stack/layers/block/self_attn/ab_scales", "ab_scales"},
           {"encoder/conv/kernel", "Whistle"},
           {"stem/kernel", "Whistle"},
           {"stack/pe_gate", "Whistle"}}) {
    TestCheckpoint changed = checkpoint_;
    changed.AddF32(leaf, {1}, {1.0F});
    changed.Write(folder_.File("c.safetensors"));
    EXPECT_THAT(
        tests::MakePlan(folder_.File("c.safetensors")),
        StatusIs(absl::StatusCode::kUnimplemented, AllOf(HasSubstr(leaf), HasSubstr(reason))));
  }
}

TEST_F(PlanTest, DepthOutsideTheLadderIsRefused) {
  PlanOptions options = tests::ShippedOptions();
  for (const uint32_t depth : {1U, 5U, 1000U}) {
    options.layers = depth;
    EXPECT_EQ(Plan(options).status().code(), absl::StatusCode::kInvalidArgument) << depth;
  }
}

TEST_F(PlanTest, KeysOfTheBitMapUseTheInputsBlocks) {
  PlanOptions options = tests::ShippedOptions();
  options.layers = 2;  // keeps blocks 0 and 3
  options.bit_map = *quant::BitMap::Parse("layer03.q_proj=4,default=2");
  const auto plan = Plan(options);
  ASSERT_OK(plan);
  EXPECT_EQ(plan->widths()[*plan->schema().FindName("layer01.q_proj")], format::Width::kCq4);
  EXPECT_EQ(plan->widths()[*plan->schema().FindName("layer00.q_proj")], format::Width::kCq2);
}

TEST_F(PlanTest, TokenizerBesideTheCheckpointIsTaken) {
  tests::WriteFile(folder_.File("tokenizer.model"),
                   tests::ReadFile(Testdata("fixture/tokenizer.model")));
  PlanOptions options = tests::ShippedOptions();
  options.tokenizer.reset();
  const auto plan = Plan(options);
  ASSERT_OK(plan);
  EXPECT_EQ(plan->tokenizer_path(), folder_.File("tokenizer.model"));
  const auto want = tests::ReadBytes(Testdata("tokenizer/bpe.attachment"));
  EXPECT_TRUE(
      std::equal(want.begin(), want.end(), plan->tokenizer().begin(), plan->tokenizer().end()));
  EXPECT_TRUE(Plan()->tokenizer().empty());  // asked for none
}

TEST_F(PlanTest, SizesAreKnownBeforeAnythingIsWritten) {
  const auto plan = Plan();
  ASSERT_OK(plan);
  ASSERT_OK(Build(*plan, folder_.File("c.cact"), {}));
  const auto archive = format::Archive::Open(folder_.File("c.cact"));
  ASSERT_OK(archive);
  EXPECT_EQ(archive->bytes().size(), plan->layout().file_bytes);
  EXPECT_TRUE(archive->records() == plan->layout().records);
}

TEST_F(PlanTest, RowsOutOfRangeAreRefused) {
  const auto plan = Plan();
  ASSERT_OK(plan);
  std::vector<float> row(256);
  EXPECT_OK(plan->ReadRows(0, 703, 1, row));
  EXPECT_FALSE(plan->ReadRows(0, 704, 1, row).ok());
  EXPECT_FALSE(plan->ReadRows(0, UINT64_MAX, 2, row).ok());
  EXPECT_FALSE(plan->ReadRows(0, 0, 2, row).ok());
  EXPECT_FALSE(plan->ReadRows(10'000, 0, 1, row).ok());
}

}  // namespace
}  // namespace needle::converter
