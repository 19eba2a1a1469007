// Field case F17: LoRA adapters.
#include "converter/adapter.h"

#include <string>
#include <vector>

#include "format/slice.h"
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

constexpr uint64_t kLayers = 4;

// Values that need more digits than bfloat16 has.
std::vector<float> Factor(size_t count, float step) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int>((i * 37) % 101) - 50) * step;
  }
  return values;
}

TestCheckpoint Rank2Adapter() {
  TestCheckpoint adapter;
  adapter.AddF32("lora/" + std::string(tests::kQProjLeaf) + "/A", {kLayers, tests::kQProjIn, 2},
                 Factor(kLayers * tests::kQProjIn * 2, 0.0013F));
  adapter.AddF32("lora/" + std::string(tests::kQProjLeaf) + "/B", {kLayers, 2, tests::kQProjOut},
                 Factor(kLayers * 2 * tests::kQProjOut, 0.0021F));
  adapter.metadata = {{"scale", "2.0"}, {"rank", "2"}, {"languages", "null"}};
  return adapter;
}

std::string Name(const char* factor) {
  return "lora/" + std::string(tests::kQProjLeaf) + "/" + factor;
}

class AdapterTest : public ::testing::Test {
 protected:
  absl::Status Open() {
    adapter_.Write(path());
    return Adapter::Open(path()).status();
  }
  absl::StatusOr<TensorPlan> Plan(const std::string& base) {
    adapter_.Write(path());
    PlanOptions options = tests::ShippedOptions();
    options.adapters = {path()};
    return tests::MakePlan(base, options);
  }
  std::string path() const { return folder_.File("adapter.safetensors"); }

  TempFolder folder_;
  TestCheckpoint adapter_ = Rank2Adapter();
};

auto RefusesAdapter(const std::string& a, const std::string& b = "") {
  return StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr(a), HasSubstr(b)));
}

// Every merged weight against the rule of the specification: the product in f32 over the rank,
// times the scale, rounded to the leaf's type, added, rounded again.
void ExpectMerged(const TensorPlan& plan, const TestCheckpoint& base, const TestCheckpoint& adapter,
                  float (*round)(float)) {
  std::vector<float> row(tests::kQProjIn);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const auto position = plan.schema().Find({format::TensorRole::kQProj, layer});
    for (uint64_t out = 0; out < tests::kQProjOut; ++out) {
      ASSERT_OK(plan.ReadRows(*position, out, 1, row));
      for (uint64_t in = 0; in < tests::kQProjIn; ++in) {
        float product = 0;
        for (uint64_t r = 0; r < 2; ++r) {
          product += adapter.Get(Name("A"), (layer * tests::kQProjIn + in) * 2 + r) *
                     adapter.Get(Name("B"), (layer * 2 + r) * tests::kQProjOut + out);
        }
        const float weight =
            base.Get(tests::kQProjLeaf, (layer * tests::kQProjIn + in) * tests::kQProjOut + out);
        ASSERT_EQ(row[in], round(weight + round(product * 2.0F)))
            << layer << " " << out << " " << in;
      }
    }
  }
}

TEST_F(AdapterTest, MergesIntoBf16RoundingTwice) {
  const auto plan = Plan(Testdata(tests::kPadCheckpoint));
  ASSERT_OK(plan);
  TestCheckpoint base = TestCheckpoint::Load(tests::kPadCheckpoint);
  base.Widen();
  ExpectMerged(*plan, base, adapter_,
               [](float value) { return base::F32FromBf16(base::Bf16FromF32(value)); });
}

TEST_F(AdapterTest, MergesIntoF32) {
  TestCheckpoint base = TestCheckpoint::Load(tests::kPadCheckpoint);
  base.Widen();
  base.Write(folder_.File("base.safetensors"));
  const auto plan = Plan(folder_.File("base.safetensors"));
  ASSERT_OK(plan);
  ExpectMerged(*plan, base, adapter_, [](float value) { return value; });
}

TEST_F(AdapterTest, TwoAdaptersMergeInOrderAndTwiceTheSameWarns) {
  adapter_.Write(path());
  PlanOptions options = tests::ShippedOptions();
  options.adapters = {path(), path()};
  const auto plan = tests::MakePlan(Testdata(tests::kPadCheckpoint), options);
  ASSERT_OK(plan);
  EXPECT_THAT(plan->warnings(), ::testing::Contains(HasSubstr("more than once")));
  const auto once = Plan(Testdata(tests::kPadCheckpoint));
  ASSERT_OK(once);
  std::vector<float> merged_once(tests::kQProjIn);
  std::vector<float> merged_twice(tests::kQProjIn);
  ASSERT_OK(once->ReadRows(2, 0, 1, merged_once));
  ASSERT_OK(plan->ReadRows(2, 0, 1, merged_twice));
  EXPECT_NE(merged_once, merged_twice);
}

TEST_F(AdapterTest, HalfPrecisionFactorsAreWidened) {
  const auto to_half = [](tests::TestTensor& tensor, const char* dtype, uint16_t (*narrow)(float)) {
    std::string bytes;
    for (size_t i = 0; i < tensor.bytes.size(); i += 4) {
      TestCheckpoint::Append(bytes, narrow(base::LoadLe<float>(&tensor.bytes[i])));
    }
    tensor.dtype = dtype;
    tensor.bytes = bytes;
  };
  to_half(adapter_.tensors[Name("A")], "BF16", base::Bf16FromF32);
  to_half(adapter_.tensors[Name("B")], "F16", base::F16FromF32);
  TestCheckpoint base = TestCheckpoint::Load(tests::kPadCheckpoint);
  base.Widen();
  base.Write(folder_.File("base.safetensors"));
  const auto plan = Plan(folder_.File("base.safetensors"));
  ASSERT_OK(plan);
  TestCheckpoint wide = adapter_;
  wide.Widen();
  ExpectMerged(*plan, base, wide, [](float value) { return value; });
}

TEST_F(AdapterTest, MergedThenSlicedEqualsBuiltAtThatDepth) {
  const std::string base = Testdata("golden/n3-small/checkpoint.safetensors");
  PlanOptions options = tests::ShippedOptions();
  options.adapters = {Testdata("golden/n3-small/adapter.safetensors")};
  ASSERT_OK(BuildArchive(base, folder_.File("full.cact"), options));
  options.layers = 2;
  ASSERT_OK(BuildArchive(base, folder_.File("built.cact"), options));
  const auto full = format::Archive::Open(folder_.File("full.cact"));
  ASSERT_OK(full);
  ASSERT_OK(format::SliceArchive(*full, 2, {}, folder_.File("sliced.cact")));
  EXPECT_TRUE(ReadFile(folder_.File("built.cact")) == ReadFile(folder_.File("sliced.cact")));
}

TEST_F(AdapterTest, KeepConfidenceKeepsTheHead) {
  const std::string base = Testdata("golden/n3-small/checkpoint.safetensors");
  PlanOptions options = tests::ShippedOptions();
  options.adapters = {Testdata("golden/n3-small/adapter.safetensors")};
  auto plan = tests::MakePlan(base, options);
  ASSERT_OK(plan);
  EXPECT_FALSE(plan->schema().FindName("confidence_head.probes").has_value());
  options.keep_confidence = true;
  plan = tests::MakePlan(base, options);
  ASSERT_OK(plan);
  EXPECT_TRUE(plan->schema().FindName("confidence_head.probes").has_value());
}

TEST_F(AdapterTest, LeafThatIsTrainingOnlyIsNamed) {
  TestCheckpoint base = TestCheckpoint::Load("golden/n2-small/checkpoint.safetensors");
  const std::string leaf = "mtp_block/self_attn/q_proj/kernel";  // [256, 128]
  TestCheckpoint only;
  only.metadata = {{"scale", "1"}};
  only.AddF32("lora/" + leaf + "/A", {256, 1}, std::vector<float>(256, 1.0F));
  only.AddF32("lora/" + leaf + "/B", {1, 128}, std::vector<float>(128, 1.0F));
  adapter_ = only;
  EXPECT_THAT(Plan(Testdata("golden/n2-small/checkpoint.safetensors")),
              RefusesAdapter("changes nothing", leaf));
}

TEST_F(AdapterTest, ScaleMustBeANumber) {
  for (const char* scale : {"abc", "\"2.0\"", "null", "NaN", "1e999", "[2]"}) {
    adapter_.metadata["scale"] = scale;
    EXPECT_THAT(Open(), RefusesAdapter("scale")) << scale;
  }
  adapter_.metadata.erase("scale");
  EXPECT_THAT(Open(), RefusesAdapter("no scale"));
  adapter_.metadata["scale"] = "0";
  EXPECT_THAT(Open(), RefusesAdapter("changes nothing"));
}

TEST_F(AdapterTest, FactorsThatAreNotFiniteAreRefused) {
  adapter_.Set(Name("A"), 5, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(Open(), RefusesAdapter(Name("A"), "value 5"));
  adapter_ = Rank2Adapter();
  adapter_.Set(Name("B"), 0, std::numeric_limits<float>::infinity());
  EXPECT_THAT(Open(), RefusesAdapter(Name("B"), "value 0"));
}

TEST_F(AdapterTest, AllOfBZeroChangesNothing) {
  adapter_.AddF32(Name("B"), {kLayers, 2, tests::kQProjOut},
                  std::vector<float>(kLayers * 2 * tests::kQProjOut, 0.0F));
  EXPECT_THAT(Open(), RefusesAdapter("changes nothing"));
}

TEST_F(AdapterTest, FactorsMustFitEachOther) {
  adapter_.tensors[Name("A")].shape = {kLayers, 2, tests::kQProjIn};  // stored [L, r, in]
  EXPECT_THAT(Open(), RefusesAdapter("[4, 2, 192]", "[4, 2, 48]"));
  adapter_ = Rank2Adapter();
  adapter_.tensors[Name("B")].shape = {kLayers, 4, tests::kQProjOut / 2};
  EXPECT_THAT(Open(), RefusesAdapter("[4, 192, 2]", "[4, 4, 24]"));
  adapter_ = Rank2Adapter();
  adapter_.tensors.erase(Name("B"));
  EXPECT_THAT(Open(), RefusesAdapter(tests::kQProjLeaf, "only a factor A"));
  adapter_ = Rank2Adapter();
  adapter_.metadata["rank"] = "4";
  EXPECT_THAT(Open(), RefusesAdapter("[4, 192, 2]", "rank 4"));
}

TEST_F(AdapterTest, LeafMustBeInTheBaseAndFit) {
  for (const char* factor : {"A", "B"}) {
    adapter_.tensors["lora/stack/unknown/" + std::string(factor)] = adapter_.tensors[Name(factor)];
  }
  EXPECT_THAT(Plan(Testdata(tests::kPadCheckpoint)), RefusesAdapter("no leaf \"stack/unknown\""));
  // Made for a base of other depth.
  adapter_ = Rank2Adapter();
  adapter_.AddF32(Name("A"), {2, tests::kQProjIn, 2}, Factor(2 * tests::kQProjIn * 2, 0.01F));
  adapter_.AddF32(Name("B"), {2, 2, tests::kQProjOut}, Factor(2 * 2 * tests::kQProjOut, 0.01F));
  EXPECT_THAT(Plan(Testdata(tests::kPadCheckpoint)), RefusesAdapter("[2, 192, 2]", "[4, 192, 48]"));
}

TEST_F(AdapterTest, LeavesMayHaveDifferentRanks) {
  const std::string other = "stack/layers/block/self_attn/gate_proj/kernel";  // [4, 192, 120]
  adapter_.AddF32("lora/" + other + "/A", {kLayers, tests::kQProjIn, 1},
                  Factor(kLayers * tests::kQProjIn, 0.01F));
  adapter_.AddF32("lora/" + other + "/B", {kLayers, 1, 120}, Factor(kLayers * 120, 0.01F));
  adapter_.metadata.erase("rank");
  EXPECT_OK(Plan(Testdata(tests::kPadCheckpoint)));
}

TEST_F(AdapterTest, LanguagesAreRefusedByName) {
  adapter_.metadata["languages"] = "[\"de\"]";
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("languages")));
}

TEST_F(AdapterTest, OtherTensorsAreRefused) {
  adapter_.AddF32("stack/final_norm/scale", {1}, {1.0F});
  EXPECT_THAT(Open(), RefusesAdapter("stack/final_norm/scale", "lora/LEAF/A"));
  adapter_.tensors.clear();
  EXPECT_THAT(Open(), RefusesAdapter("no factors"));
}

}  // namespace
}  // namespace needle::converter
