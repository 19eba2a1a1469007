// A session against itself: prefill and steps, threads, both twins of the kernels; and what it
// refuses.
#include "engine/session.h"

#include <stdio.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engram.h"
#include "engine/observer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/status_matchers.h"

namespace needle::engine {
namespace {

using ::needle::tests::StatusIs;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

struct WindowCase {
  const char* archive;
  Numerics numerics;
};
void PrintTo(const WindowCase& c, std::ostream* out) {
  *out << c.archive << " " << NumericsName(c.numerics);
}

class Windows : public ::testing::TestWithParam<WindowCase> {};

// At the edges of the window (16, the size of a tile of keys, and 32, a chunk, where there is none)
// and at the end of the context. 1e-5 is the promise; the sums are the same in both ways, so that
// they agree to the bit.
TEST_P(Windows, PrefillAndStepsAgree) {
  const Model model = LoadGolden(GetParam().archive, GetParam().numerics);
  const format::Geometry& geometry = model.geometry();
  const std::vector<uint32_t> tokens = SomeTokens(model, geometry.max_seq_len);
  Session session(model);
  std::vector<std::vector<float>> steps;
  for (const uint32_t token : tokens) steps.push_back(Copy(session.Step(token)));

  const bool needle2 = geometry.generation == format::Generation::kNeedle2;
  const size_t window = needle2 ? geometry.kv_window : geometry.sliding_window;
  std::vector<size_t> edges = {1, 15, 16, 17, 31, 32, 33, tokens.size()};
  if (window > 0) edges.insert(edges.end(), {window - 1, window, window + 1, 2 * window});
  for (const size_t count : edges) {
    const std::vector<float> last =
        Prefilled(model, std::span(tokens).first(count), Session::Logits::kLast);
    EXPECT_LE(RelativeRms(last, steps[count - 1]), 1e-5) << count << " tokens";
    EXPECT_THAT(last, ElementsAreArray(steps[count - 1])) << count << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Windows,
                         ::testing::Values(WindowCase{"n3-small/cq2.cact", Numerics::kFloat},
                                           WindowCase{"n3-small/cq2.cact", Numerics::kKernel},
                                           WindowCase{"n3-pad/cq2.cact", Numerics::kA8},
                                           WindowCase{"n3-pad/cq2.cact", Numerics::kKernel},
                                           WindowCase{"n3-odd/cq2.cact", Numerics::kFloat},
                                           WindowCase{"n3-odd/mixed.cact", Numerics::kKernel},
                                           WindowCase{"n2-small/cq2.cact", Numerics::kFloat},
                                           WindowCase{"n2-small/cq2.cact", Numerics::kKernel}));

class AllNumerics : public ::testing::TestWithParam<Numerics> {};

TEST_P(AllNumerics, ThreadsDoNotShow) {
  const Model one = LoadGolden("n3-small/cq2.cact", GetParam(), 1);
  const std::vector<uint32_t> tokens = SomeTokens(one, 70);
  const std::vector<float> expected = Prefilled(one, tokens, Session::Logits::kAll);
  for (const size_t threads : {2U, 7U}) {
    const Model model = LoadGolden("n3-small/cq2.cact", GetParam(), threads);
    EXPECT_EQ(Prefilled(model, tokens, Session::Logits::kAll), expected) << threads << " threads";
  }
}

TEST_P(AllNumerics, PartsOfAPromptAndTheWholeAgree) {
  const Model model = LoadGolden("n3-odd/cq2.cact", GetParam());
  const std::vector<uint32_t> tokens = SomeTokens(model, 90);
  const std::vector<float> whole = Prefilled(model, tokens, Session::Logits::kLast);
  Session session(model);
  ASSERT_OK(session.Prefill(std::span(tokens).first(41), Session::Logits::kNone));
  ASSERT_OK(session.Prefill(std::span(tokens).subspan(41, 3), Session::Logits::kAll));
  EXPECT_EQ(Copy(session.Prefill(std::span(tokens).subspan(44), Session::Logits::kLast)), whole);
  EXPECT_EQ(session.position(), 90U);
  EXPECT_THAT(session.tokens(), ElementsAreArray(tokens));
}

TEST_P(AllNumerics, ResetForgetsEverything) {
  const Model model = LoadGolden("n3-small/cq2.cact", GetParam());
  const std::vector<uint32_t> tokens = SomeTokens(model, 50);
  Session session(model, {.capture_cells = true});
  const std::vector<float> first = Copy(session.Prefill(tokens, Session::Logits::kAll));
  const std::vector<float> cells(session.cells().begin(), session.cells().end());
  session.Reset();
  EXPECT_EQ(session.position(), 0U);
  EXPECT_TRUE(session.cells().empty());
  EXPECT_EQ(Copy(session.Prefill(tokens, Session::Logits::kAll)), first);
  EXPECT_THAT(session.cells(), ElementsAreArray(cells));
}

INSTANTIATE_TEST_SUITE_P(Numerics, AllNumerics,
                         ::testing::Values(Numerics::kFloat, Numerics::kA8, Numerics::kKernel));

// The integer kernel quantises inputs group by group, a8 vector by vector: rounding errors of the
// same kind, 1/127 of a maximum over sqrt(12), so about 1 % of a vector each, independent of each
// other. With 2-bit KV such a difference moves about 1 % of the coordinates of keys and values over
// a boundary (three of density 0.4 for each sigma), by one entry, about a sigma: sqrt(0.01) = 10 %
// of a vector, in each of five layers.
TEST(KernelNumerics, StayCloseToThoseOfA8) {
  const std::pair<const char*, double> cases[] = {
      {"n3-small/cq2.cact", 0.03}, {"n2-small/cq2.cact", 0.03}, {"n3-odd/cq4.cact", 0.2}};
  for (const auto& [archive, limit] : cases) {
    const Model kernel = LoadGolden(archive, Numerics::kKernel);
    const Model reference = LoadGolden(archive, Numerics::kA8);
    const std::vector<uint32_t> tokens = SomeTokens(kernel, 60);
    EXPECT_LT(RelativeRms(Prefilled(kernel, tokens, Session::Logits::kAll),
                          Prefilled(reference, tokens, Session::Logits::kAll)),
              limit)
        << archive;
  }
}

// Which twin runs is decided once a process, so each runs in a process of its own.
std::string LogitsOfProcess(const std::string& environment) {
  FILE* const pipe = popen((environment + " " + NEEDLE_PRINT_LOGITS).c_str(), "r");
  if (pipe == nullptr) return "no process";
  std::string logits;
  char line[256];
  while (fgets(line, sizeof(line), pipe) != nullptr) logits += line;
  return pclose(pipe) == 0 ? logits : environment + " failed";
}

TEST(KernelNumerics, AreTheSameToTheBitInBothTwins) {
  const std::string portable = LogitsOfProcess("NEEDLE_SIMD=portable");
  EXPECT_GT(portable.size(), 100000U);
  EXPECT_EQ(LogitsOfProcess("NEEDLE_SIMD="), portable);
}

class Refusals : public ::testing::Test {
 protected:
  const Model model_ = LoadGolden("n2-small/cq2.cact", Numerics::kFloat);
  Session session_{model_};
};

TEST_F(Refusals, MoreTokensThanTheContextHolds) {
  const std::vector<uint32_t> tokens = SomeTokens(model_, 257);
  EXPECT_THAT(session_.Prefill(tokens, Session::Logits::kLast),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("max_seq_len is 256")));
  EXPECT_EQ(session_.position(), 0U);
  ASSERT_OK(session_.Prefill(std::span(tokens).first(256), Session::Logits::kNone));
  EXPECT_THAT(session_.Step(1), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("after 256")));
  EXPECT_EQ(session_.position(), 256U);
}

TEST_F(Refusals, TokensOutsideTheVocabulary) {
  EXPECT_THAT(session_.Step(640), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("is 640, want an id below 640")));
  const std::vector<uint32_t> tokens = {1, 2, 70000};
  EXPECT_THAT(session_.Prefill(tokens, Session::Logits::kLast),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token 2 is 70000")));
  EXPECT_EQ(session_.position(), 0U);
}

TEST_F(Refusals, NoTokensAtAll) {
  EXPECT_THAT(session_.Prefill({}, Session::Logits::kLast),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no tokens")));
}

// An archive that keeps its packed tensors to itself, as a float checkpoint does.
class FloatsOnly : public WeightSource {
 public:
  explicit FloatsOnly(std::shared_ptr<const ArchiveWeights> archive)
      : archive_(std::move(archive)) {}
  const std::string& name() const override { return archive_->name(); }
  const format::Geometry& geometry() const override { return archive_->geometry(); }
  const format::Schema& schema() const override { return archive_->schema(); }
  absl::StatusOr<std::vector<float>> Floats(format::TensorId id) const override {
    return archive_->Floats(id);
  }
  std::optional<format::CqView> Packed(format::TensorId) const override { return std::nullopt; }
  std::optional<std::span<const uint8_t>> Tokenizer() const override { return std::nullopt; }

 private:
  std::shared_ptr<const ArchiveWeights> archive_;
};

TEST(ModelTest, KernelNumericsNeedPackedMatrices) {
  const auto archive = ArchiveWeights::Open(tests::Testdata("golden/n3-small/cq2.cact"));
  ASSERT_OK(archive);
  EXPECT_THAT(Model::Load(std::make_shared<FloatsOnly>(*archive), {.numerics = Numerics::kKernel}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("embedding is not packed")));
  EXPECT_THAT(Model::Load(nullptr, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no source")));
}

TEST(ModelTest, FloatsAloneGiveTheSameLogits) {
  const auto archive = ArchiveWeights::Open(tests::Testdata("golden/n3-small/cq2.cact"));
  ASSERT_OK(archive);
  const auto floats = Model::Load(std::make_shared<FloatsOnly>(*archive), {});
  ASSERT_OK(floats);
  const std::vector<uint32_t> tokens = SomeTokens(*floats, 20);
  EXPECT_EQ(
      Prefilled(*floats, tokens, Session::Logits::kAll),
      Prefilled(LoadGolden("n3-small/cq2.cact", Numerics::kFloat), tokens, Session::Logits::kAll));
}

// Writes down what it is told.
class Recorder : public Observer {
 public:
  void OnTokens(size_t first, std::span<const uint32_t> tokens) override {
    EXPECT_EQ(first, tokens_.size());
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  void OnProduct(const ProductInput& input) override {
    EXPECT_EQ(input.x.size(), input.count * input.cols);
    rows_[{static_cast<int>(input.id.role), input.id.index}] += input.num_rows * input.count;
    if (input.id == format::TensorId{format::TensorRole::kQProj, 2}) {
      q_inputs_.insert(q_inputs_.end(), input.x.begin(), input.x.end());
    }
  }
  void OnEngramGather(uint32_t site, size_t tables, std::span<const uint32_t> rows) override {
    EXPECT_EQ(rows.size() % tables, 0U);
    if (site == 1) gathered_.insert(gathered_.end(), rows.begin(), rows.end());
  }

  std::vector<uint32_t> tokens_;
  std::map<std::pair<int, uint32_t>, size_t> rows_;  // rows times vectors, of each matrix
  std::vector<float> q_inputs_;
  std::vector<uint32_t> gathered_;
};

TEST(ObserverTest, IsToldEveryProductOfTheTrunk) {
  const Model model = LoadGolden("n3-small/cq2.cact", Numerics::kFloat);
  const std::vector<uint32_t> tokens = SomeTokens(model, 40);
  Recorder recorder;
  Session session(model, {.observer = &recorder});
  ASSERT_OK(session.Prefill(tokens, Session::Logits::kAll));
  EXPECT_EQ(recorder.tokens_, tokens);
  EXPECT_EQ(recorder.q_inputs_.size(), tokens.size() * model.geometry().d_model);
  for (const format::TensorSpec& spec : model.source().schema().tensors()) {
    if (spec.dtype != format::DType::kCq || format::IsHeadRole(spec.id.role)) continue;
    if (spec.id.role == format::TensorRole::kEngramTables) continue;
    const bool embedding = spec.id.role == format::TensorRole::kEmbedding;
    const size_t rows = embedding ? model.geometry().LogitRows() : spec.shape[0];
    EXPECT_EQ((recorder.rows_[{static_cast<int>(spec.id.role), spec.id.index}]),
              rows * tokens.size())
        << spec.name;
  }
  std::vector<uint32_t> expected(model.geometry().num_engram_tables);
  for (size_t t = 0; t < tokens.size(); ++t) {
    EngramRows(model.geometry(), std::span(tokens).first(t + 1), expected);
    EXPECT_THAT(std::span(recorder.gathered_).subspan(t * expected.size(), expected.size()),
                ElementsAreArray(expected));
  }
}

// By hand: order 2, table 0: acc = 0x9E3779B9; xor 5, times 0x01000193: 0xCD54A2F4; xor 3, times
// 0x01000193: 0x333C8AD5; xor its upper 17 bits 0x6679: 0x333CECAC.
TEST(EngramTest, HashesAsSpecified) {
  format::Geometry geometry;
  geometry.num_engram_tables = 2;
  geometry.engram_slots = 1000;
  geometry.engram_orders = {2, 3};
  std::vector<uint32_t> rows(2);
  EngramRows(geometry, std::vector<uint32_t>{3, 5}, rows);
  EXPECT_EQ(rows[0], 0x333CECACU % 1000);
  EXPECT_EQ(rows[1], Observer::kNoRow);
}

}  // namespace
}  // namespace needle::engine
