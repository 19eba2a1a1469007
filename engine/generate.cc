#include "engine/generate.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "engine/vector_ops.h"

namespace needle::engine {

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEos:
      return "eos";
    case StopReason::kLength:
      return "length";
    case StopReason::kContext:
      return "context";
    case StopReason::kCallback:
      return "callback";
  }
  return "unknown";
}

uint32_t Argmax(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return static_cast<uint32_t>(best);
}

absl::StatusOr<uint32_t> Sampler::Next(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return absl::InternalError(
          absl::StrFormat("logit %d is %g, want a finite one", i, logits[i]));
    }
  }
  const uint32_t best = Argmax(logits);
  if (temperature_ == 0) return best;
  // Exp and the sums are our own, and mt19937_64 is defined to the bit: the same draw everywhere.
  weights_.resize(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    total += static_cast<double>(Exp((logits[i] - logits[best]) / temperature_));
    weights_[i] = total;
  }
  const double point = static_cast<double>(engine_() >> 11) * 0x1p-53 * total;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (point < weights_[i]) return static_cast<uint32_t>(i);
  }
  return best;
}

namespace {

// Answers after the prompt, whose last logits are given.
absl::Status AnswerTo(std::span<const float> logits, Session& session,
                      const GenerateOptions& options, Completion& completion) {
  Sampler sampler(options.temperature, options.seed);
  const size_t limit = session.model().geometry().max_seq_len;
  while (true) {
    if (completion.tokens.size() == options.max_new_tokens) {
      completion.stop = StopReason::kLength;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const uint32_t token, sampler.Next(logits));
    if (token == options.eos_id) return absl::OkStatus();
    completion.tokens.push_back(token);
    if (options.on_token && !options.on_token(token)) {
      completion.stop = StopReason::kCallback;
      return absl::OkStatus();
    }
    if (session.position() == limit) {
      completion.stop = StopReason::kContext;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(logits, session.Step(token));
  }
}

}  // namespace

absl::StatusOr<Completion> Generate(Session& session, std::span<const uint32_t> prompt,
                                    const GenerateOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("temperature is %g, want 0 or more", options.temperature));
  }
  Completion completion;
  const base::Stopwatch watch;
  ASSIGN_OR_RETURN(const std::span<const float> logits,
                   session.Prefill(prompt, Session::Logits::kLast));
  completion.prompt_seconds = watch.Seconds();
  RETURN_IF_ERROR(AnswerTo(logits, session, options, completion));
  completion.answer_seconds = watch.Seconds() - completion.prompt_seconds;
  return completion;
}

}  // namespace needle::engine
