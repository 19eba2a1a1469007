// The trained fixture's recorded answers and figures, by the reference. Specification: "Prompt",
// "The model the reference engine runs"; testdata/README.md says how the figures were made.
#include <cmath>
#include <map>

#include "base/json.h"
#include "converter/verify/eval.h"
#include "format/slice.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/verify/fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NEEDLE_SANITIZED 1
#else
#define NEEDLE_SANITIZED 0
#endif

namespace needle::verify {
namespace {

using engine::Numerics;
using ::testing::HasSubstr;

// Under sanitizers the engine is some ten times slower: fewer examples, and figures that are of all
// 100 examples are not compared.
constexpr size_t kExamples = NEEDLE_SANITIZED ? 6 : 100;
constexpr size_t kRecordedNewTokens = 72;
constexpr size_t kRecordedTokens = 192;

base::Json ReadJson(const std::string& name) {
  return ValueOf(base::ParseJson(tests::ReadFile(tests::Testdata("fixture/" + name))));
}

// Archives of the checkpoint in other schemes, built once.
class FixtureEval : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    plan_ = MakePlan("fixture/checkpoint.safetensors");
    examples_ = ValueOf(ReadExamples(tests::Testdata("fixture/held.jsonl"), kExamples));
    tokenizer_ = std::make_unique<engine::Tokenizer>(
        ValueOf(engine::Tokenizer::FromSource(PlanWeights(plan_))));
    folder_ = std::make_unique<tests::TempFolder>();
  }
  static void TearDownTestSuite() {
    folder_.reset();
    tokenizer_.reset();
    plan_.reset();
  }

  // Path of the archive of `scheme`: all tensors but the heads at these widths, at this depth.
  static std::string Built(const std::string& name, std::string_view scheme, uint32_t layers = 0) {
    const std::string path = folder_->File(name + ".cact");
    converter::BuildOptions options;
    options.threads = 1;
    ValueOf(converter::Build(*MakePlan("fixture/checkpoint.safetensors", scheme, layers), path,
                             options));
    return path;
  }

  static EvalOptions Recorded() {
    EvalOptions options;
    options.max_new_tokens = kRecordedNewTokens;
    options.max_tokens = kRecordedTokens;
    options.threads = 2;
    return options;
  }

  static EvalReport Run(const std::vector<EvalRun>& runs, const EvalOptions& options) {
    return ValueOf(Evaluate(runs, *tokenizer_, examples_, options));
  }

  static inline std::shared_ptr<const converter::TensorPlan> plan_;
  static inline std::vector<EvalExample> examples_;
  static inline std::unique_ptr<engine::Tokenizer> tokenizer_;
  static inline std::unique_ptr<tests::TempFolder> folder_;
};

// Float numerics give the reference's greedy answers, letter for letter, and so its exact calls.
TEST_F(FixtureEval, GreedyAnswersAreTheReferences) {
  const engine::Model floats = LoadFloats(plan_);
  const engine::Model cq2 = LoadArchive(tests::Testdata("fixture/cq2.cact"), Numerics::kFloat);
  EvalOptions options = Recorded();
  options.teacher_forced = false;
  const EvalReport report = Run({{"float", &floats}, {"cq2", &cq2}}, options);
  const base::Json float_answers = ReadJson("float-answers.json");
  const base::Json cq2_answers = ReadJson("cq2-answers.json");
  ASSERT_EQ(report.examples, kExamples);
  for (size_t i = 0; i < report.examples; ++i) {
    EXPECT_EQ(report.answers[0][i], float_answers[i]["text"].get<std::string>()) << i;
    EXPECT_EQ(report.answers[1][i], cq2_answers[i].get<std::string>()) << i;
  }
}

}  // namespace
}  // namespace needle::verify
