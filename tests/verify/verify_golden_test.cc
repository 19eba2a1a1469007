// Field case F14: golden tensors that are incomplete, of another form or of another model.
#include <cmath>
#include <limits>
#include <map>

#include "converter/verify/verify_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/damage.h"
#include "tests/verify/fixture.h"

namespace needle::verify {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Golden tensors in memory, to be changed by tests.
class MemoryTensors : public NamedTensors {
 public:
  explicit MemoryTensors(const std::string& testdata_name) : name_("golden") {
    const tests::GoldenTensors golden(testdata_name);
    for (const auto& [key, tensor] : golden.floats()) {
      tensors_.push_back({.name = key,
                          .type = quant::SourceType::kF32,
                          .type_name = "F32",
                          .shape = {tensor.shape.begin(), tensor.shape.end()}});
      values_.push_back(tensor.values);
    }
  }

  size_t Index(const std::string& tensor) const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].name == tensor) return i;
    }
    throw std::runtime_error("no golden tensor " + tensor);
  }
  converter::Leaf& Leaf(const std::string& tensor) { return tensors_[Index(tensor)]; }
  std::vector<float>& Mutable(const std::string& tensor) { return values_[Index(tensor)]; }
  void Remove(const std::string& tensor) {
    const auto index = static_cast<ptrdiff_t>(Index(tensor));
    tensors_.erase(tensors_.begin() + index);
    values_.erase(values_.begin() + index);
  }
  void Add(const std::string& tensor) {
    tensors_.push_back(
        {.name = tensor, .type = quant::SourceType::kF32, .type_name = "F32", .shape = {1}});
    values_.push_back({0});
  }
  void Transpose(const std::string& tensor) {
    auto& shape = Leaf(tensor).shape;
    const std::vector<float> old = Mutable(tensor);
    for (uint64_t i = 0; i < old.size(); ++i) {
      Mutable(tensor)[i % shape[1] * shape[0] + i / shape[1]] = old[i];
    }
    std::swap(shape[0], shape[1]);
  }

  const std::string& name() const override { return name_; }
  const std::vector<converter::Leaf>& tensors() const override { return tensors_; }
  absl::StatusOr<std::vector<float>> Values(size_t index) const override { return values_[index]; }

 private:
  std::string name_;
  std::vector<converter::Leaf> tensors_;
  std::vector<std::vector<float>> values_;
};

TensorsReport Verify(const format::Archive& archive, const NamedTensors& golden,
                     size_t threads = 1) {
  TensorsOptions options;
  options.threads = threads;
  auto report = VerifyGolden(archive, golden, options);
  EXPECT_OK(report);
  return report.ok() ? *std::move(report) : TensorsReport{};
}

class VerifyGoldenTest : public ::testing::Test {
 protected:
  void ExpectFailure(const ::testing::Matcher<std::string>& message) {
    const TensorsReport report = Verify(archive_, golden_);
    EXPECT_FALSE(report.passed());
    EXPECT_EQ(report.num_failures(), 1);
    EXPECT_THAT(AllFailures(report), ElementsAre(message));
  }

  // Every width is in it.
  format::Archive archive_ = OpenArchive("golden/n3-odd/mixed.cact");
  MemoryTensors golden_{"golden/n3-odd/mixed.dequantised.safetensors"};
};

TEST_F(VerifyGoldenTest, TheReferencesArchivesDecodeToTheReferencesTensors) {
  for (const char* name : {"n3-odd/mixed", "n3-pad/cq2"}) {
    const format::Archive archive = OpenArchive("golden/" + std::string(name) + ".cact");
    const MemoryTensors golden("golden/" + std::string(name) + ".dequantised.safetensors");
    const TensorsReport report = Verify(archive, golden, 2);
    EXPECT_TRUE(report.passed()) << name;
    EXPECT_THAT(AllFailures(report), IsEmpty()) << name;
    EXPECT_THAT(report.tensors, SizeIs(golden.tensors().size())) << name;
    uint64_t values = 0;
    for (const converter::Leaf& leaf : golden.tensors()) {
      values += converter::NumLeafValues(leaf.shape).value();
    }
    EXPECT_EQ(report.values, values) << name;
  }
}

TEST_F(VerifyGoldenTest, NanInTheGoldenTensorIsNeverWithinTolerance) {
  golden_.Mutable("layer03.q_proj")[3 * 128 + 5] = std::numeric_limits<float>::quiet_NaN();
  ExpectFailure(AllOf(HasSubstr("layer03.q_proj: row 3, group 0, column 5"), HasSubstr("nan")));
}

TEST_F(VerifyGoldenTest, NanInAnExactTensorToo) {
  golden_.Mutable("final_norm")[7] = std::numeric_limits<float>::quiet_NaN();
  ExpectFailure(HasSubstr("final_norm: row 0, group 0, column 7"));
}

TEST_F(VerifyGoldenTest, AMissingTensorIsNoPass) {
  golden_.Remove("layer02.norm_in");
  ExpectFailure(AllOf(HasSubstr("layer02.norm_in"), HasSubstr("no golden tensor")));
}

TEST_F(VerifyGoldenTest, AnExtraTensorIsNoPass) {
  golden_.Add("layer09.norm_in");
  ExpectFailure(HasSubstr("layer09.norm_in"));
}

TEST_F(VerifyGoldenTest, NothingToCompareIsNoPass) {
  while (!golden_.tensors().empty()) golden_.Remove(golden_.tensors()[0].name);
  EXPECT_FALSE(Verify(archive_, golden_).passed());
}

TEST_F(VerifyGoldenTest, TransposedIsNoPass) {
  golden_.Transpose("engram0.tables");
  ExpectFailure(AllOf(HasSubstr("engram0.tables"), HasSubstr("shape")));
}

// The shape does not tell; the values do.
TEST_F(VerifyGoldenTest, TransposedSquareIsNoPass) {
  golden_.Transpose("layer00.out_proj");
  const TensorsReport report = Verify(archive_, golden_);
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(AllFailures(report), Each(HasSubstr("layer00.out_proj: row ")));
}

TEST_F(VerifyGoldenTest, HalfPrecisionIsNoPass) {
  golden_.Leaf("layer00.norm_in").type = quant::SourceType::kF16;
  golden_.Leaf("layer00.norm_in").type_name = "F16";
  ExpectFailure(HasSubstr("layer00.norm_in: golden tensor of type F16, want F32"));
}

TEST_F(VerifyGoldenTest, TheSetOfAnotherDepthIsNoPass) {
  const TensorsReport report = Verify(OpenArchive("golden/n3-odd/cq2.layers3.cact"), golden_);
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(report.failures, ::testing::Contains(HasSubstr("layer04.")));
}

// 1e-5 of the group's largest magnitude: five times the tolerance, in the largest tensor.
TEST_F(VerifyGoldenTest, OneWrongValueInTheLargestTensorIsEnough) {
  std::vector<float>& values = golden_.Mutable("engram1.tables");
  const size_t cols = golden_.Leaf("engram1.tables").shape[1];
  float largest = 0;
  for (size_t i = 0; i < cols; ++i) largest = std::max(largest, std::abs(values[10 * cols + i]));
  values[10 * cols + 2] += 1e-5F * largest;
  ExpectFailure(HasSubstr("engram1.tables: row 10, group 0, column 2"));
}

TEST_F(VerifyGoldenTest, ExactTensorsHaveNoTolerance) {
  float& value = golden_.Mutable("layer01.d1")[3];
  value = std::nextafter(value, 2.0F);
  ExpectFailure(HasSubstr("layer01.d1: row 0, group 0, column 3"));
}

TEST_F(VerifyGoldenTest, TheToleranceCanBeChanged) {
  std::vector<float>& values = golden_.Mutable("engram1.tables");
  values[0] += 1e-5F * std::abs(values[0]);
  TensorsOptions options;
  options.limits.golden_tolerance = 1e-4;
  const auto report = VerifyGolden(archive_, golden_, options);
  ASSERT_OK(report);
  EXPECT_TRUE(report->passed());
}

TEST_F(VerifyGoldenTest, DamageToTheArchiveIsNamed) {
  Damage damage(tests::Testdata("golden/n3-odd/mixed.cact"));
  damage.FlipIndexBit("engram1.tables", 100, 4);
  const auto archive = damage.Reopen();
  ASSERT_OK(archive);
  const TensorsReport report = Verify(*archive, golden_);
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.num_failures(), 1);
  EXPECT_THAT(AllFailures(report), ElementsAre(HasSubstr("engram1.tables: row 100, group 0")));
}

}  // namespace
}  // namespace needle::verify
