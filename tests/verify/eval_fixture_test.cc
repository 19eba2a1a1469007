// The trained fixture's recorded answers and figures, by the reference. Specification: "Prompt",
// "The model the reference engine runs"; testdata/README.md says how the figures were made.
#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "converter/verify/eval.h"
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

// Under sanitizers the engine is some ten times slower: fewer examples there, and no figures, which
// are of all 100.
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

  // Path of the checkpoint's archive in `scheme`.
  static std::string Built(const std::string& name, std::string_view scheme) {
    const std::string path = folder_->File(name + ".cact");
    converter::BuildOptions options;
    options.threads = 1;
    ValueOf(converter::Build(*MakePlan("fixture/checkpoint.safetensors", scheme), path, options));
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

// A figure of figures.json within 5 %, as the reference engine has to reach.
void ExpectNear(double found, const base::Json& figures, const char* key) {
  const double wanted = figures.at(key).get<double>();
  EXPECT_NEAR(found, wanted, 0.05 * wanted) << key;
}

[[maybe_unused]] void ExpectFigures(const RunResult& run, const std::string& name) {
  SCOPED_TRACE(name);
  const base::Json figures = ReadJson("figures.json")["checkpoint"][name];
  ASSERT_TRUE(run.divergence.has_value());
  ExpectNear(run.divergence->kl_mean, figures, "mean_kl");
  ExpectNear(run.divergence->kl_p99, figures, "p99_kl");
  ExpectNear(run.divergence->top1, figures, "top1");
  EXPECT_NEAR(std::log(run.perplexity), std::log(figures["ppl"].get<double>()),
              0.05 * std::log(figures["ppl"].get<double>()));
  // A flipped example is 0.01; there are 100.
  if (figures.contains("seq_exact")) {
    EXPECT_NEAR(run.sequences_exact, figures["seq_exact"].get<double>(), 0.0101);
  }
}

[[maybe_unused]] void ExpectExactCalls(const RunResult& run, const std::string& name) {
  const base::Json figures = ReadJson("figures.json")["checkpoint"][name];
  // Within one in fifty.
  EXPECT_NEAR(static_cast<double>(run.calls.exact), figures["exact"].get<double>(), 2) << name;
  EXPECT_EQ(run.calls.unparsable, figures["unparsable"].get<uint64_t>()) << name;
}

// The float checkpoint and archives of it in float numerics: letter for letter the reference's
// greedy answers, its exact calls, and its figures.
TEST_F(FixtureEval, FloatNumericsGiveTheReferencesAnswersAndFigures) {
  const engine::Model floats = LoadFloats(plan_);
  const engine::Model cq2 = LoadArchive(tests::Testdata("fixture/cq2.cact"), Numerics::kFloat);
  std::vector<EvalRun> runs = {{"float", &floats}, {"cq2", &cq2}};
#if !NEEDLE_SANITIZED
  const engine::Model all2 = LoadArchive(Built("all2", "default=2"), Numerics::kFloat);
  const engine::Model cq4 = LoadArchive(Built("cq4", "default=4"), Numerics::kFloat);
  const engine::Model layers4 =
      LoadFloats(MakePlan("fixture/checkpoint.safetensors", quant::kShippedScheme, 4));
  runs.insert(runs.end(), {{"all2", &all2}, {"cq4", &cq4}, {"layers4", &layers4}});
#endif
  const EvalReport report = Run(runs, Recorded());
  const base::Json float_answers = ReadJson("float-answers.json");
  const base::Json cq2_answers = ReadJson("cq2-answers.json");
  ASSERT_EQ(report.examples, kExamples);
  for (size_t i = 0; i < report.examples; ++i) {
    EXPECT_EQ(report.answers[0][i], float_answers[i]["text"].get<std::string>()) << i;
    EXPECT_EQ(report.answers[1][i], cq2_answers[i].get<std::string>()) << i;
  }
#if !NEEDLE_SANITIZED
  for (size_t i = 0; i < runs.size(); ++i) {
    ExpectExactCalls(report.runs[i], runs[i].label);
    EXPECT_EQ(report.runs[i].positions, 2580) << runs[i].label;  // top1 is a multiple of 1/2580
    if (i > 0) ExpectFigures(report.runs[i], runs[i].label);
  }
  EXPECT_EQ(report.runs[0].calls.exact, 98);
  EXPECT_EQ(report.runs[1].calls.exact, 95);
  ExpectNear(std::log(report.runs[0].perplexity), {{"ppl", std::log(1.002766728401184)}}, "ppl");
#endif
}

#if !NEEDLE_SANITIZED
TEST_F(FixtureEval, ActivationQuantisationGivesTheReferencesFigures) {
  const engine::Model floats = LoadFloats(plan_);
  const engine::Model cq2 = LoadArchive(tests::Testdata("fixture/cq2.cact"), Numerics::kA8);
  const engine::Model all2 = LoadArchive(Built("all2", "default=2"), Numerics::kA8);
  const std::vector<EvalRun> runs = {{"float", &floats}, {"cq2.a8", &cq2}, {"all2.a8", &all2}};
  EvalOptions options = Recorded();
  options.generate = false;
  const EvalReport report = Run(runs, options);
  ExpectFigures(report.runs[1], runs[1].label);
  ExpectFigures(report.runs[2], runs[2].label);
}
#endif

// A few examples, to see that the parts of a report belong together.
class EvalReportTest : public FixtureEval {
 protected:
  static EvalReport RunFew(const std::vector<EvalRun>& runs, EvalOptions options) {
    const std::span<const EvalExample> few = std::span<const EvalExample>(examples_).first(6);
    return ValueOf(Evaluate(runs, *tokenizer_, few, options));
  }
};

TEST_F(EvalReportTest, ListsAnswersThatDifferByRun) {
  const engine::Model floats = LoadFloats(plan_);
  const engine::Model cq2 = LoadArchive(tests::Testdata("fixture/cq2.cact"), Numerics::kKernel);
  const engine::Model binary = LoadArchive(Built("binary", "default=1"), Numerics::kKernel);
  EvalOptions options = Recorded();
  options.teacher_forced = false;
  const EvalReport report =
      RunFew({{"float", &floats}, {"cq2", &cq2}, {"binary", &binary}}, options);
  EXPECT_EQ(report.runs[1].numerics, Numerics::kKernel);
  EXPECT_FALSE(report.runs[1].divergence.has_value());
  ASSERT_FALSE(report.changed.empty());  // all matrices at one bit: the model is gone
  for (const ChangedAnswer& changed : report.changed) {
    ASSERT_EQ(changed.answers.size(), 3);
    for (size_t run = 0; run < 3; ++run) {
      EXPECT_EQ(changed.answers[run], report.answers[run][changed.line - 1]);
    }
    EXPECT_EQ(changed.query, examples_[changed.line - 1].request.query);
    EXPECT_THAT(AnswerText(examples_[changed.line - 1]), HasSubstr(changed.wanted));
  }
  for (size_t i = 0; i < 6; ++i) {
    const bool is_listed = std::any_of(report.changed.begin(), report.changed.end(),
                                       [i](const auto& changed) { return changed.line == i + 1; });
    EXPECT_EQ(is_listed, report.answers[0][i] != report.answers[1][i] ||
                             report.answers[0][i] != report.answers[2][i]);
  }
}

TEST_F(EvalReportTest, ThreadsDoNotShow) {
  const engine::Model floats = LoadFloats(plan_);
  const engine::Model cq2 = LoadArchive(tests::Testdata("fixture/cq2.cact"), Numerics::kKernel);
  const std::vector<EvalRun> runs = {{"float", &floats}, {"cq2", &cq2}};
  EvalOptions options = Recorded();
  options.threads = 1;
  const EvalReport one = RunFew(runs, options);
  options.threads = 3;
  const EvalReport three = RunFew(runs, options);
  EXPECT_EQ(one.answers, three.answers);
  EXPECT_EQ(one.runs[1].perplexity, three.runs[1].perplexity);
  EXPECT_EQ(one.runs[1].divergence->kl_mean, three.runs[1].divergence->kl_mean);
}

TEST_F(EvalReportTest, CountsCallsTooManyAndTooFew) {
  const engine::Model floats = LoadFloats(plan_);
  EvalOptions options = Recorded();
  options.teacher_forced = false;
  // Lines 1 and 2: the model calls nothing, and one tool, and is right.
  std::vector<EvalExample> examples(examples_.begin(), examples_.begin() + 2);
  std::swap(examples[0].answers, examples[1].answers);
  const std::vector<EvalRun> runs = {{"float", &floats}};
  const CallCounts counts = ValueOf(Evaluate(runs, *tokenizer_, examples, options)).runs[0].calls;
  EXPECT_EQ(counts.examples, 2);
  EXPECT_EQ(counts.exact, 0);
  EXPECT_EQ(counts.over_calling, 1);
  EXPECT_EQ(counts.under_calling, 1);
  EXPECT_EQ(counts.unparsable, 0);
  EXPECT_GT(counts.new_tokens, 0);
}

TEST_F(EvalReportTest, AnAnswerThatIsCutIsUnparsable) {
  const engine::Model floats = LoadFloats(plan_);
  EvalOptions options = Recorded();
  options.max_new_tokens = 1;
  const CallCounts counts = RunFew({{"float", &floats}}, options).runs[0].calls;
  EXPECT_EQ(counts.unparsable, 6);
  EXPECT_EQ(counts.new_tokens, 6);
}

TEST_F(EvalReportTest, APromptThatLeavesNoRoomIsListedAndNotRun) {
  const engine::Model floats = LoadFloats(plan_);
  std::vector<EvalExample> examples(examples_.begin(), examples_.begin() + 2);
  examples[1].request.query.assign(5000, 'x');
  const std::vector<EvalRun> runs = {{"float", &floats}};
  const EvalReport report = ValueOf(Evaluate(runs, *tokenizer_, examples, Recorded()));
  EXPECT_EQ(report.examples, 1);
  EXPECT_THAT(report.too_long, ::testing::ElementsAre(2));
  EXPECT_THAT(Evaluate(runs, *tokenizer_, std::span(examples).last(1), Recorded()),
              tests::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer than")));
}

TEST_F(EvalReportTest, RefusesModelsOfAnotherVocabularyAndNothingToDo) {
  const engine::Model floats = LoadFloats(plan_);
  const engine::Model other = LoadFloats(MakePlan("golden/n3-pad/checkpoint.safetensors"));
  const std::vector<EvalRun> runs = {{"float", &floats}, {"other", &other}};
  EXPECT_THAT(Evaluate(runs, *tokenizer_, examples_, Recorded()),
              tests::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("other: vocabulary")));
  EXPECT_THAT(Evaluate({}, *tokenizer_, examples_, Recorded()),
              tests::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no model")));
  EXPECT_THAT(Evaluate(std::span(runs).first(1), *tokenizer_, {}, Recorded()),
              tests::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no examples")));
}

TEST_F(EvalReportTest, ProgressCanStop) {
  const engine::Model floats = LoadFloats(plan_);
  const std::vector<EvalRun> runs = {{"float", &floats}};
  EvalOptions options = Recorded();
  options.progress = [](size_t done, size_t) { return done < 2; };
  EXPECT_EQ(Evaluate(runs, *tokenizer_, examples_, options).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace needle::verify
