#include "engine/generate.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/prompt.h"
#include "engine/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_testing.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::engine {
namespace {

using ::needle::tests::StatusIs;
using ::testing::HasSubstr;

base::Json ReadJson(const std::string& name) {
  return *base::ParseJson(tests::ReadFile(tests::Testdata(name)));
}

// The reference generates at most 72 tokens (shared figures: "greedy, at most 72 new tokens").
// Under sanitizers, which are about faults and not about figures, a few answers do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kAnswers = 6;
#else
constexpr size_t kAnswers = 100;
#endif

TEST(GenerateTest, GreedyAnswersOfTheFixtureEqualTheReference) {
  const Model model = LoadTestModel("fixture/cq2.cact", Numerics::kFloat);
  const auto tokenizer = Tokenizer::FromSource(model.source());
  ASSERT_OK(tokenizer);
  const base::Json examples = ReadJson("fixture/float-answers.json");
  const base::Json answers = ReadJson("fixture/cq2-answers.json");
  ASSERT_EQ(examples.size(), 100U);
  ASSERT_EQ(answers.size(), 100U);
  Session session(model);
  for (size_t i = 0; i < kAnswers; ++i) {
    const auto request = RequestFromJson(examples[i]);
    ASSERT_OK(request);
    session.Reset();
    const auto answer = Generate(session, EncodePrompt(*tokenizer, *request),
                                 {.max_new_tokens = 72, .eos_id = tokenizer->table().eos_id});
    ASSERT_OK(answer);
    EXPECT_EQ(tokenizer->Decode(answer->tokens), answers[i].get<std::string>()) << "example " << i;
  }
}

class SmallModel : public ::testing::Test {
 protected:
  const Model model_ = LoadGolden("n3-small/cq2.cact", Numerics::kFloat);
  Session session_{model_};
  const std::vector<uint32_t> prompt_ = {2, 17, 93, 5};
};

TEST_F(SmallModel, StopsAtTheLengthLimitAndAtTheCallersWish) {
  // No id is 1,000,000, so EOS never comes.
  const auto four = Generate(session_, prompt_, {.max_new_tokens = 4, .eos_id = 1000000});
  ASSERT_OK(four);
  EXPECT_EQ(four->stop, StopReason::kLength);
  EXPECT_EQ(four->tokens.size(), 4U);
  session_.Reset();
  std::vector<uint32_t> seen;
  const auto stopped = Generate(
      session_, prompt_, {.max_new_tokens = 4, .eos_id = 1000000, .on_token = [&](uint32_t id) {
                            seen.push_back(id);
                            return seen.size() < 2;
                          }});
  ASSERT_OK(stopped);
  EXPECT_EQ(stopped->stop, StopReason::kCallback);
  EXPECT_THAT(seen, ::testing::ElementsAre(four->tokens[0], four->tokens[1]));
}

TEST_F(SmallModel, StopsAtEosWithoutReturningIt) {
  const auto three = Generate(session_, prompt_, {.max_new_tokens = 3, .eos_id = 1000000});
  ASSERT_OK(three);
  session_.Reset();
  const auto stopped = Generate(session_, prompt_, {.eos_id = three->tokens[0]});
  ASSERT_OK(stopped);
  EXPECT_EQ(stopped->stop, StopReason::kEos);
  EXPECT_TRUE(stopped->tokens.empty());
}

TEST_F(SmallModel, StopsWhenTheContextIsFull) {
  const size_t limit = model_.geometry().max_seq_len;
  const std::vector<uint32_t> full(limit, 7);
  const auto answer = Generate(session_, full, {.eos_id = 1000000});
  ASSERT_OK(answer);
  EXPECT_EQ(answer->stop, StopReason::kContext);
  EXPECT_EQ(answer->tokens.size(), 1U);
}

TEST_F(SmallModel, RefusesTemperaturesThatAreNone) {
  EXPECT_THAT(Generate(session_, prompt_, {.temperature = -1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("temperature is -1")));
  EXPECT_THAT(Generate(session_, prompt_, {.temperature = std::numeric_limits<float>::quiet_NaN()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("temperature")));
}

TEST_F(SmallModel, TheSameSeedGivesTheSameTokens) {
  const GenerateOptions options = {
      .max_new_tokens = 20, .temperature = 1, .seed = 5, .eos_id = 1000000};
  const auto first = Generate(session_, prompt_, options);
  session_.Reset();
  const auto second = Generate(session_, prompt_, options);
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_EQ(first->tokens, second->tokens);
}

// Expected counts are n * p with standard deviation sqrt(n p (1 - p)) <= 100; five of them allowed.
TEST(SamplerTest, DrawsFromTheSoftmax) {
  Sampler sampler(2.0F, 1);
  const std::vector<float> logits = {0.0F, 2.0F, -100.0F, 4.0F};
  std::map<uint32_t, int> counts;
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) {
    const auto token = sampler.Next(logits);
    ASSERT_OK(token);
    ++counts[*token];
  }
  // e^0, e^1, e^2 over their sum 11.107.
  EXPECT_NEAR(counts[0], kDraws * 0.09003, 500);
  EXPECT_NEAR(counts[1], kDraws * 0.24473, 500);
  EXPECT_NEAR(counts[3], kDraws * 0.66524, 500);
  EXPECT_EQ(counts[2], 0);
}

TEST(SamplerTest, GreedyTakesTheLowestOfEqualLogits) {
  EXPECT_EQ(Argmax(std::vector<float>{1, 3, 3, 2}), 1U);
}

TEST(SamplerTest, RefusesLogitsThatAreNotFinite) {
  Sampler sampler(0, 0);
  EXPECT_THAT(sampler.Next(std::vector<float>{0, std::numeric_limits<float>::quiet_NaN()}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("logit 1 is nan")));
}

}  // namespace
}  // namespace needle::engine
