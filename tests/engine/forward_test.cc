// The forward pass against the reference's golden data, and against itself.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/archive_weights.h"
#include "engine/heads.h"
#include "engine/model.h"
#include "engine/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"

namespace needle::engine {
namespace {

struct GoldenCase {
  std::string archive;  // below testdata/golden
  std::string forward;  // the file with its data
  std::string prefix;   // of the keys there
};

void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << golden.archive; }

class GoldenForward : public ::testing::TestWithParam<GoldenCase> {
 protected:
  // Runs the golden tokens, checks logits and cells, and returns nothing.
  void Check(Numerics numerics, double logits_limit, double cells_limit) {
    const tests::GoldenTensors golden("golden/" + GetParam().forward);
    const std::string key = GetParam().prefix + std::string(NumericsName(numerics));
    if (!golden.Has(key + ".logits")) GTEST_SKIP() << "the reference has no " << key;
    const Model model = LoadGolden(GetParam().archive, numerics);
    Session session(model, {.capture_cells = true});
    const auto logits = session.Prefill(TokensOf(golden), Session::Logits::kAll);
    ASSERT_OK(logits);
    EXPECT_LT(RelativeRms(*logits, golden.Floats(key + ".logits").values), logits_limit);
    if (!golden.Has(key + ".cells")) return;
    EXPECT_LT(RelativeRms(session.cells(), golden.Floats(key + ".cells").values), cells_limit);
  }
};

// f32 sums of some thousand terms in another order than the reference's: 2^-24 * sqrt(5 layers * a
// few thousand terms) is about 5e-6 relative to the values.
TEST_P(GoldenForward, FloatAgreesWithTheReference) { Check(Numerics::kFloat, 5e-6, 5e-6); }

// A rounding that falls the other way changes one activation by 1/127 of its vector's maximum,
// which no tolerance of float sums covers. With kv_bits below 8 one flipped index moves a key by a
// tenth of its length.
TEST_P(GoldenForward, A8AgreesWithTheReference) {
  const bool small_kv =
      GetParam().archive.find("n3-pad") == 0 || GetParam().archive.find("n3-odd") == 0;
  Check(Numerics::kA8, small_kv ? 3e-2 : 1e-2, small_kv ? 3e-2 : 1e-2);
}

constexpr uint32_t kPadId = 0;  // of every Needle tokenizer

// Head outputs are of size 1, so that 1e-5 leaves room for cells that differ by 1e-6.
TEST_P(GoldenForward, HeadsAgreeWithTheReference) {
  const tests::GoldenTensors golden("golden/" + GetParam().forward);
  const Model model = LoadGolden(GetParam().archive, Numerics::kFloat);
  const auto heads = ProbeHeads::Load(model.source());
  ASSERT_OK(heads);
  Session session(model, {.capture_cells = true});
  ASSERT_OK(session.Prefill(TokensOf(golden), Session::Logits::kNone));
  const auto outputs = heads->Run(session.cells(), session.tokens(), kPadId);
  ASSERT_OK(outputs);
  ASSERT_EQ(outputs->size(), model.source().schema().heads().size());
  for (const HeadOutput& output : *outputs) {
    const std::string key =
        GetParam().prefix + "float." + std::string(format::HeadName(output.kind));
    if (!golden.Has(key)) continue;
    EXPECT_THAT(output.values,
                ::testing::Pointwise(::testing::FloatNear(1e-5F), golden.Floats(key).values))
        << key;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GoldenForward,
    ::testing::Values(
        GoldenCase{"n3-small/cq2.cact", "n3-small/forward.safetensors", "cq2."},
        GoldenCase{"n3-pad/cq2.cact", "n3-pad/forward.safetensors", "cq2."},
        GoldenCase{"n3-odd/cq2.cact", "n3-odd/forward.safetensors", "cq2."},
        GoldenCase{"n2-small/cq2.cact", "n2-small/forward.safetensors", "cq2."},
        GoldenCase{"n3-small/cq2.layers2.cact", "n3-small/cq2.layers2.forward.safetensors", ""},
        GoldenCase{"n3-pad/cq2.layers3.cact", "n3-pad/cq2.layers3.forward.safetensors", ""},
        GoldenCase{"n3-odd/cq2.layers2.cact", "n3-odd/cq2.layers2.forward.safetensors", ""}));

}  // namespace
}  // namespace needle::engine
