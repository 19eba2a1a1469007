// Field case F14: golden tensors that are incomplete, of another form or of another model.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "base/endian.h"
#include "base/half.h"
#include "converter/verify/verify_tensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "quant/codebook.h"
#include "quant/encode.h"
#include "quant/pack.h"
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

// 1e-4 of the group's largest magnitude, in the largest tensor: a norm one step of f16 away changes
// it by 5e-4 or more.
TEST_F(VerifyGoldenTest, OneWrongValueInTheLargestTensorIsEnough) {
  std::vector<float>& values = golden_.Mutable("engram1.tables");
  const size_t cols = golden_.Leaf("engram1.tables").shape[1];
  float largest = 0;
  for (size_t i = 0; i < cols; ++i) largest = std::max(largest, std::abs(values[10 * cols + i]));
  values[10 * cols + 2] += 1e-4F * largest;
  ExpectFailure(HasSubstr("engram1.tables: row 10, group 0, column 2"));
}

TEST_F(VerifyGoldenTest, ExactTensorsHaveNoTolerance) {
  float& value = golden_.Mutable("layer01.d1")[3];
  value = std::nextafter(value, 2.0F);
  ExpectFailure(HasSubstr("layer01.d1: row 0, group 0, column 3"));
}

TEST_F(VerifyGoldenTest, TheToleranceCanBeChanged) {
  std::vector<float>& values = golden_.Mutable("engram1.tables");
  values[0] += 1e-3F * std::abs(values[0]);
  EXPECT_FALSE(Verify(archive_, golden_).passed());
  TensorsOptions options;
  options.limits.golden_tolerance = 1e-2;
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

// A matrix of each width, and its values as other decoders may compute them: sums of products with
// the rows of a Hadamard matrix, in f32, in different orders.
class GoldenWidthsTest : public VerifyGoldenTest {
 protected:
  using Order = std::function<float(std::vector<float>&)>;

  std::vector<std::string> OneOfEachWidth() const {
    std::map<format::Width, const format::TensorSpec*> smallest;
    for (const format::TensorSpec& spec : archive_.schema().tensors()) {
      if (spec.dtype != format::DType::kCq || spec.shape[0] < 2 || spec.shape[1] < 64) continue;
      auto& kept = smallest[archive_.Cq(*archive_.schema().Find(spec.id)).width];
      if (kept == nullptr || spec.shape[0] < kept->shape[0]) kept = &spec;
    }
    EXPECT_EQ(smallest.size(), 5U);
    std::vector<std::string> names;
    for (const auto& [width, spec] : smallest) names.push_back(spec->name);
    return names;
  }

  // Specification, "Decoding".
  std::vector<float> Decode(const std::string& tensor, const Order& sum) const {
    const format::CqView view = archive_.Cq(*archive_.schema().FindName(tensor));
    const quant::Codebook codebook = ValueOf(quant::CodebookFor(view));
    const uint64_t bytes = view.layout.row_bytes / view.layout.groups;
    const float scale = 1 / std::sqrt(static_cast<float>(view.group));
    std::vector<uint8_t> codes(view.group);
    std::vector<float> values, products(view.group);
    for (uint64_t place = 0; place < view.layout.rows * view.layout.groups; ++place) {
      quant::UnpackRow(view.width, view.indices.subspan(place * bytes, bytes), codes);
      const float norm = base::F32FromF16(base::LoadLe<uint16_t>(&view.norms[2 * place]));
      const uint64_t first = place % view.layout.groups * view.group;
      for (uint32_t j = 0; j < view.group && first + j < view.layout.cols; ++j) {
        for (uint32_t k = 0; k < view.group; ++k) {
          const float sign = std::popcount(j & k) % 2 == 0 ? scale : -scale;
          products[k] = sign * (codebook.entries()[codes[k]] * norm);
        }
        values.push_back(sum(products));
      }
    }
    return values;
  }

  bool Passes(const Damage& damage) const {
    const auto archive = damage.Reopen();
    return archive.ok() && Verify(*archive, golden_).passed();
  }
};

TEST_F(GoldenWidthsTest, AnyOrderOfAdditionsPasses) {
  const auto in_order = [](const std::vector<float>& products) {
    return std::accumulate(products.begin(), products.end(), 0.0F);
  };
  const std::map<std::string, Order> orders = {
      {"forward", in_order},
      {"backward",
       [&](std::vector<float>& products) {
         std::ranges::reverse(products);
         return in_order(products);
       }},
      // The worst for rounding: one sign first, from the largest.
      {"sorted",
       [&](std::vector<float>& products) {
         std::ranges::sort(products, std::greater());
         return in_order(products);
       }},
      {"eight lanes",
       [&](std::vector<float>& products) {
         std::vector<float> lanes(8, 0);
         for (size_t i = 0; i < products.size(); ++i) lanes[i % 8] += products[i];
         return in_order(lanes);
       }},
  };
  for (const std::string& tensor : OneOfEachWidth()) {
    for (const auto& [name, order] : orders) {
      golden_.Mutable(tensor) = Decode(tensor, order);
      EXPECT_THAT(AllFailures(Verify(archive_, golden_)), IsEmpty()) << tensor << ", " << name;
    }
  }
}

TEST_F(GoldenWidthsTest, AFlippedIndexIsSeen) {
  for (const std::string& tensor : OneOfEachWidth()) {
    for (const uint64_t bit : {0U, 8U, 15U}) {
      Damage damage(tests::Testdata("golden/n3-odd/mixed.cact"));
      damage.FlipIndexBit(tensor, 1, bit);
      EXPECT_FALSE(Passes(damage)) << tensor << ", bit " << bit;
    }
  }
}

TEST_F(GoldenWidthsTest, ANormOneStepAwayIsSeen) {
  for (const std::string& tensor : OneOfEachWidth()) {
    for (const int step : {-1, 1}) {
      Damage damage(tests::Testdata("golden/n3-odd/mixed.cact"));
      damage.SetNorm(tensor, 1, 0, static_cast<uint16_t>(damage.Norm(tensor, 1, 0) + step));
      EXPECT_FALSE(Passes(damage)) << tensor << ", step " << step;
    }
  }
}

TEST_F(GoldenWidthsTest, SwappedRowsAreSeen) {
  for (const std::string& tensor : OneOfEachWidth()) {
    const std::vector<float> good = golden_.Mutable(tensor);
    std::vector<float>& values = golden_.Mutable(tensor);
    const auto cols = static_cast<ptrdiff_t>(golden_.Leaf(tensor).shape[1]);
    std::swap_ranges(values.begin(), values.begin() + cols, values.begin() + cols);
    const TensorsReport report = Verify(archive_, golden_);
    EXPECT_THAT(AllFailures(report), ::testing::Contains(HasSubstr(tensor + ": row 0"))) << tensor;
    EXPECT_THAT(AllFailures(report), ::testing::Contains(HasSubstr(tensor + ": row 1"))) << tensor;
    values = good;
  }
}

}  // namespace
}  // namespace needle::verify
