#include "converter/calibrate/self_text.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "engine/generate.h"
#include "engine/model.h"
#include "engine/session.h"

namespace needle::calibrate {
namespace {

// Examples that are written at a time: the number of threads must not show.
constexpr size_t kRound = 16;
constexpr size_t kMostRounds = 256;
constexpr float kTemperature = 1.0F;

// What the prompt format puts around a request. Specification: "Prompt".
constexpr std::string_view kUserHeader = "<|im_start|>user\n";
constexpr std::string_view kTurnEnd = "<|im_end|>";
constexpr std::string_view kAssistantHeader = "\n<|im_start|>assistant\n";

class Writer {
 public:
  Writer(const engine::Model& model, const engine::Tokenizer& tokenizer, size_t example_limit)
      : model_(model),
        limit_(example_limit),
        bos_(tokenizer.table().bos_id),
        eos_(tokenizer.table().eos_id),
        user_(tokenizer.Encode(kUserHeader)),
        assistant_(tokenizer.Encode(kAssistantHeader)) {
    const std::vector<uint32_t> end = tokenizer.Encode(kTurnEnd);
    if (end.size() == 1) turn_end_ = end[0];
  }

  absl::StatusOr<Example> Write(uint64_t seed) const {
    engine::Session session(model_);
    Example example;
    example.tokens.push_back(bos_);
    if (turn_end_) example.tokens.insert(example.tokens.end(), user_.begin(), user_.end());
    const size_t prompt_limit = turn_end_ ? limit_ / 2 : limit_;
    RETURN_IF_ERROR(Sample(session, seed, prompt_limit, example.tokens));
    if (!turn_end_) return example;
    if (example.tokens.back() != *turn_end_) example.tokens.push_back(*turn_end_);
    example.tokens.insert(example.tokens.end(), assistant_.begin(), assistant_.end());
    example.answer_start = example.tokens.size();
    RETURN_IF_ERROR(Answer(session, example.tokens));
    return example;
  }

 private:
  // Up to the end of the turn or the text.
  absl::Status Sample(engine::Session& session, uint64_t seed, size_t most,
                      std::vector<uint32_t>& tokens) const {
    engine::Sampler sampler(kTemperature, seed);
    ASSIGN_OR_RETURN(std::span<const float> logits,
                     session.Prefill(tokens, engine::Session::Logits::kLast));
    while (tokens.size() < most) {
      ASSIGN_OR_RETURN(const uint32_t token, sampler.Next(logits));
      if (token == eos_) break;
      tokens.push_back(token);
      if (token == turn_end_) break;
      ASSIGN_OR_RETURN(logits, session.Step(token));
    }
    return absl::OkStatus();
  }

  absl::Status Answer(engine::Session& session, std::vector<uint32_t>& tokens) const {
    session.Reset();
    engine::GenerateOptions options;
    options.max_new_tokens = limit_ - std::min(limit_ - 1, tokens.size());
    options.eos_id = eos_;
    ASSIGN_OR_RETURN(const engine::Completion answer, engine::Generate(session, tokens, options));
    tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
    tokens.push_back(eos_);
    tokens.resize(std::min(tokens.size(), limit_));
    return absl::OkStatus();
  }

  const engine::Model& model_;
  size_t limit_;
  uint32_t bos_;
  uint32_t eos_;
  std::optional<uint32_t> turn_end_;
  std::vector<uint32_t> user_;
  std::vector<uint32_t> assistant_;
};

std::string HashTokens(const std::vector<Example>& examples) {
  std::vector<uint8_t> bytes;
  for (const Example& example : examples) {
    for (const uint32_t token : example.tokens) {
      for (int shift = 0; shift < 32; shift += 8) {
        bytes.push_back(static_cast<uint8_t>(token >> shift));
      }
    }
  }
  return base::Sha256Hex(bytes);
}

}  // namespace

absl::StatusOr<CalibrationSet> WriteSelfText(std::shared_ptr<const engine::WeightSource> source,
                                             const engine::Tokenizer& tokenizer,
                                             const SelfTextOptions& options) {
  const size_t context = source->geometry().max_seq_len;
  ASSIGN_OR_RETURN(const engine::Model model,
                   engine::Model::Load(std::move(source), {.numerics = engine::Numerics::kFloat}));
  const size_t limit =
      std::max<size_t>(16, std::min<size_t>(options.limits.max_example_tokens, context));
  const Writer writer(model, tokenizer, std::min(limit, context));
  const size_t wanted = options.limits.max_tokens / 2;
  base::ThreadPool pool(base::ResolveThreads(options.threads));
  std::vector<Example> examples;
  size_t tokens = 0;
  for (size_t round = 0; round < kMostRounds && (tokens < wanted || round == 0); ++round) {
    std::vector<absl::StatusOr<Example>> written(kRound, absl::UnknownError("not written"));
    pool.ParallelFor(kRound, 1, [&](size_t i, size_t, size_t) {
      written[i] = writer.Write(options.seed * 1000003 + round * kRound + i);
    });
    for (absl::StatusOr<Example>& example : written) {
      if (!example.ok()) return example.status();
      tokens += example->tokens.size();
      examples.push_back(*std::move(example));
    }
    if (options.progress && !options.progress(std::min(tokens, wanted), wanted)) {
      return absl::CancelledError("calibration was stopped");
    }
  }
  CalibrationSet set{.name = kSelfText, .sha256 = HashTokens(examples)};
  Split(std::move(examples), options.limits, set);
  return set;
}

base::Json SelfTextToJson(const CalibrationSet& set) {
  base::Json json = base::Json::array();
  for (size_t i = 0, fit = 0, guard = 0; i < set.fit.size() + set.guard.size(); ++i) {
    const Example& example = IsGuard(i) ? set.guard[guard++] : set.fit[fit++];
    json.push_back({example.answer_start, example.tokens});
  }
  return json;
}

absl::StatusOr<CalibrationSet> SelfTextFromJson(const base::Json& json, const SetLimits& limits) {
  std::vector<Example> examples;
  const auto is_id = [](const base::Json& value) { return value.is_number_unsigned(); };
  for (const base::Json& item : json) {
    const bool good = item.is_array() && item.size() == 2 && is_id(item[0]) && item[1].is_array() &&
                      std::all_of(item[1].begin(), item[1].end(), is_id) &&
                      item[0] <= item[1].size();
    if (!good) return absl::DataLossError("statistics: the text that the model wrote is damaged");
    examples.push_back({item[1].get<std::vector<uint32_t>>(), item[0].get<size_t>()});
  }
  if (examples.empty()) return absl::DataLossError("statistics: no text that the model wrote");
  CalibrationSet set{.name = kSelfText, .sha256 = HashTokens(examples)};
  Split(std::move(examples), limits, set);
  return set;
}

}  // namespace needle::calibrate
