#include "engine/layer_runner.h"

#include <memory>
#include <string>
#include <vector>

#include "engine/archive_weights.h"
#include "engine/model.h"
#include "engine/observer.h"
#include "engine/session.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace needle::engine {
namespace {

using format::TensorRole;

// Longer than two chunks, so that caches and histories cross their borders.
std::vector<uint32_t> Tokens(uint32_t vocab) {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < 75; ++i) tokens.push_back((i * i * 31 + 7 * i + 3) % vocab);
  return tokens;
}

// All inputs of one matrix.
class Recorder final : public Observer {
 public:
  explicit Recorder(format::TensorId id) : id_(id) {}
  void OnProduct(const ProductInput& input) override {
    if (input.id == id_) x.insert(x.end(), input.x.begin(), input.x.end());
  }
  std::vector<float> x;

 private:
  format::TensorId id_;
};

struct Case {
  std::string archive;
  Numerics numerics;
};

class LayerRunnerTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto source = ArchiveWeights::Open(tests::Testdata("golden/" + GetParam().archive));
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = *source;
    tokens_ = Tokens(source_->geometry().vocab);
    values_ = size_t{source_->geometry().mhc_lanes} * source_->geometry().d_model;
  }
  std::vector<float> FromSession(format::TensorId id) {
    auto model = Model::Load(source_, {.numerics = GetParam().numerics});
    EXPECT_TRUE(model.ok()) << model.status();
    Recorder recorder(id);
    Session session(*model, {.observer = &recorder});
    EXPECT_TRUE(session.Prefill(tokens_, Session::Logits::kAll).ok());
    return recorder.x;
  }

  std::shared_ptr<const WeightSource> source_;
  std::vector<uint32_t> tokens_;
  size_t values_ = 0;
};

TEST_P(LayerRunnerTest, LayersOneByOneAreTheSession) {
  const Numerics numerics = GetParam().numerics;
  const auto ends = LayerModel::LoadEnds(source_, numerics);
  ASSERT_TRUE(ends.ok()) << ends.status();
  LayerRunner runner(source_->geometry(), numerics);
  std::vector<float> streams(tokens_.size() * values_);
  ASSERT_TRUE(runner.Embed(*ends, tokens_, streams).ok());
  for (uint32_t i = 0; i < source_->geometry().num_layers; ++i) {
    const auto layer = LayerModel::LoadLayer(source_, numerics, i);
    ASSERT_TRUE(layer.ok()) << layer.status();
    const std::vector<float> before = streams;
    for (const auto& [part, role] : {std::pair{LayerPart::kLanes, TensorRole::kMhcPhiPre},
                                     std::pair{LayerPart::kAttention, TensorRole::kGateProj},
                                     std::pair{LayerPart::kOutput, TensorRole::kOutProj}}) {
      if (i != 1) continue;  // one layer's inputs are enough: the streams tell of the others
      const format::TensorId id = {role, part == LayerPart::kLanes ? 0 : i};
      Recorder recorder(id);
      ASSERT_TRUE(runner.RunLayer(*layer, tokens_, part, &recorder, streams).ok());
      EXPECT_EQ(streams, before);
      if (part != LayerPart::kLanes) {
        EXPECT_EQ(recorder.x, FromSession(id));
      }
    }
    ASSERT_TRUE(runner.RunLayer(*layer, tokens_, LayerPart::kWhole, nullptr, streams).ok());
  }
  std::vector<float> inputs(tokens_.size() * source_->geometry().d_model);
  runner.HeadInputs(*ends, streams, inputs);
  EXPECT_EQ(inputs, FromSession({TensorRole::kEmbedding, 0}));
}

INSTANTIATE_TEST_SUITE_P(Golden, LayerRunnerTest,
                         testing::Values(Case{"n3-small/cq2.cact", Numerics::kFloat},
                                         Case{"n3-small/cq2.cact", Numerics::kA8},
                                         Case{"n3-odd/cq2.cact", Numerics::kA8},
                                         Case{"n2-small/cq2.cact", Numerics::kA8}));

TEST(LayerModelTest, RefusesKernelNumerics) {
  const auto source = ArchiveWeights::Open(tests::Testdata("golden/n3-small/cq2.cact"));
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(LayerModel::LoadEnds(*source, Numerics::kKernel).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace needle::engine
