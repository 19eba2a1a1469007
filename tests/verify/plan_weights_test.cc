#include "converter/verify/plan_weights.h"

#include <limits>

#include "base/endian.h"
#include "base/half.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/fixture.h"

namespace needle::verify {
namespace {

using format::TensorRole;
using ::testing::AllOf;
using ::testing::HasSubstr;
using tests::StatusIs;

TEST(PlanWeightsTest, GivesWhatTheArchiveKeepsBeforeItIsRounded) {
  const PlanWeights plan(MakePlan("fixture/checkpoint.safetensors"));
  const auto archive = ValueOf(engine::ArchiveWeights::Open(tests::Testdata("fixture/cq2.cact")));
  EXPECT_EQ(plan.geometry(), archive->geometry());
  size_t compared = 0;
  for (const format::TensorSpec& spec : plan.schema().tensors()) {
    if (spec.dtype != format::DType::kF16 && spec.dtype != format::DType::kF32) continue;
    std::vector<float> values = ValueOf(plan.Floats(spec.id));
    if (spec.dtype == format::DType::kF16) {
      for (float& value : values) value = base::F32FromF16(base::F16FromF32(value));
    }
    EXPECT_EQ(values, ValueOf(archive->Floats(spec.id))) << spec.name;
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

TEST(PlanWeightsTest, HoldsFloatsOnlyAndTheTokenizer) {
  const PlanWeights plan(MakePlan("fixture/checkpoint.safetensors"));
  EXPECT_FALSE(plan.Packed({TensorRole::kEmbedding}).has_value());
  const auto archive = ValueOf(engine::ArchiveWeights::Open(tests::Testdata("fixture/cq2.cact")));
  ASSERT_TRUE(plan.Tokenizer().has_value());
  EXPECT_TRUE(std::ranges::equal(*plan.Tokenizer(), *archive->Tokenizer()));
  const PlanWeights without(MakePlan("golden/n3-pad/checkpoint.safetensors"));
  EXPECT_FALSE(without.Tokenizer().has_value());
}

TEST(PlanWeightsTest, NoSuchTensor) {
  const PlanWeights plan(MakePlan("fixture/checkpoint.safetensors"));
  EXPECT_THAT(plan.Floats({TensorRole::kQProj, 6}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("q_proj")));
  EXPECT_THAT(plan.Floats({TensorRole::kTokenizer}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("tokenizer")));
}

TEST(PlanWeightsTest, NamesAValueThatIsNotFinite) {
  std::vector<uint8_t> bytes = tests::ReadBytes(tests::Testdata("fixture/checkpoint.safetensors"));
  const uint64_t header_bytes = base::LoadLe<uint64_t>(bytes.data());
  const base::Json header = ValueOf(base::ParseJson(
      std::string(bytes.begin() + 8, bytes.begin() + 8 + static_cast<ptrdiff_t>(header_bytes))));
  const uint64_t begin = header["embedding/embedding"]["data_offsets"][0];
  base::StoreLe(&bytes[8 + header_bytes + begin + 4 * 1000],
                std::numeric_limits<float>::quiet_NaN());
  const tests::TempFolder folder;
  tests::WriteBytes(folder.File("nan.safetensors"), bytes);
  converter::PlanOptions options;
  options.bit_map = ValueOf(quant::BitMap::Parse(quant::kShippedScheme));
  const PlanWeights plan(
      std::make_shared<converter::TensorPlan>(ValueOf(converter::TensorPlan::Make(
          ValueOf(converter::Checkpoint::Open(folder.File("nan.safetensors"))), options))));
  EXPECT_THAT(plan.Floats({TensorRole::kEmbedding}),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("nan.safetensors: embedding: value 1000 is"),
                             HasSubstr("want a finite number"))));
}

}  // namespace
}  // namespace needle::verify
