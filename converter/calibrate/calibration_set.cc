#include "converter/calibrate/calibration_set.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace needle::calibrate {
namespace {

constexpr size_t kGuardStep = 8;
constexpr std::string_view kCallMarker = "<tool_call>";

size_t ExampleLimit(const format::Geometry& geometry, const SetLimits& limits) {
  return std::max<size_t>(2, std::min<size_t>(limits.max_example_tokens, geometry.max_seq_len));
}

absl::Status ReadJsonLines(std::string_view text, const std::string& path,
                           const engine::Tokenizer& tokenizer, size_t example_limit,
                           const SetLimits& limits, CalibrationSet& set) {
  ASSIGN_OR_RETURN(std::vector<verify::EvalExample> lines, verify::ParseExamples(text, path));
  size_t unanswered = 0;
  std::vector<Example> examples;
  for (const verify::EvalExample& line : lines) {
    verify::TaughtTokens taught = verify::EncodeTaught(tokenizer, line);
    taught.tokens.resize(std::min(taught.tokens.size(), example_limit));
    unanswered += taught.tokens.size() <= taught.answer_start ? 1U : 0U;
    examples.push_back({std::move(taught.tokens), taught.answer_start});
  }
  if (unanswered > 0) {
    set.warnings.push_back(absl::StrFormat(
        "cut-answers: %d of %d examples are cut at %d tokens before their answer starts",
        unanswered, examples.size(), example_limit));
  }
  Split(std::move(examples), limits, set);
  const size_t used = set.fit.size() + set.guard.size();
  for (size_t i = 0; i < used; ++i) {
    if (IsGuard(i)) set.guard_examples.push_back(std::move(lines[i]));
  }
  return absl::OkStatus();
}

void ReadText(std::string_view text, const engine::Tokenizer& tokenizer, size_t example_limit,
              const SetLimits& limits, CalibrationSet& set) {
  if (text.find(kCallMarker) == std::string_view::npos) {
    set.warnings.push_back(absl::StrCat("no-tool-markers: the text holds no ",
                                        std::string(kCallMarker),
                                        "; what the model does with tools is not measured by it"));
  }
  const std::vector<uint32_t> ids = tokenizer.Encode(text);
  std::vector<Example> examples;
  for (size_t first = 0; first < ids.size(); first += example_limit - 1) {
    Example& example = examples.emplace_back();
    example.tokens.push_back(tokenizer.table().bos_id);
    const size_t count = std::min(example_limit - 1, ids.size() - first);
    example.tokens.insert(example.tokens.end(), ids.begin() + static_cast<ptrdiff_t>(first),
                          ids.begin() + static_cast<ptrdiff_t>(first + count));
  }
  Split(std::move(examples), limits, set);
}

absl::Status CheckTokens(const CalibrationSet& set, const format::Geometry& geometry) {
  for (const std::vector<Example>* examples : {&set.fit, &set.guard}) {
    for (const Example& example : *examples) {
      for (const uint32_t token : example.tokens) {
        if (token < geometry.vocab) continue;
        return absl::DataLossError(absl::StrFormat("%s: token %d, want an id below %d (vocab)",
                                                   set.name, token, geometry.vocab));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsGuard(size_t i) { return i % kGuardStep == kGuardStep - 1; }

std::vector<float> PositionWeights(const Example& example) {
  if (example.answer_start == 0) return std::vector<float>(example.tokens.size(), 1.0F);
  std::vector<float> weights(example.tokens.size(), kPromptWeight);
  // The last position predicts nothing that is there.
  for (size_t t = example.answer_start - 1; t + 1 < weights.size(); ++t) weights[t] = 1.0F;
  return weights;
}

uint64_t CountAnswerPositions(const std::vector<Example>& examples) {
  uint64_t count = 0;
  for (const Example& example : examples) {
    for (const float weight : PositionWeights(example)) count += weight == 1.0F ? 1U : 0U;
  }
  return count;
}

uint64_t CountTokens(const std::vector<Example>& examples) {
  uint64_t count = 0;
  for (const Example& example : examples) count += example.tokens.size();
  return count;
}

void Split(std::vector<Example> examples, const SetLimits& limits, CalibrationSet& set) {
  size_t tokens = 0;
  for (size_t i = 0; i < examples.size(); ++i) {
    tokens += examples[i].tokens.size();
    if (i > 0 && tokens > limits.max_tokens) {
      set.warnings.push_back(
          absl::StrFormat("token-limit: the first %d of %d examples are used, at most %d tokens", i,
                          examples.size(), limits.max_tokens));
      break;
    }
    (IsGuard(i) ? set.guard : set.fit).push_back(std::move(examples[i]));
  }
}

absl::StatusOr<CalibrationSet> ReadCalibrationSet(const std::string& path,
                                                  const engine::Tokenizer& tokenizer,
                                                  const format::Geometry& geometry,
                                                  const SetLimits& limits) {
  ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  const std::string text(file.bytes().begin(), file.bytes().end());
  CalibrationSet set{.name = path, .sha256 = base::Sha256Hex(file.bytes())};
  const size_t example_limit = ExampleLimit(geometry, limits);
  if (absl::EndsWith(path, ".jsonl")) {
    RETURN_IF_ERROR(ReadJsonLines(text, path, tokenizer, example_limit, limits, set));
  } else {
    ReadText(text, tokenizer, example_limit, limits, set);
  }
  if (set.fit.empty()) return absl::DataLossError(path + ": no text to calibrate with");
  RETURN_IF_ERROR(CheckTokens(set, geometry));
  return set;
}

}  // namespace needle::calibrate
