// engine/generate.h: answers token by token. Specification: "Prompt", last lines.
#ifndef NEEDLE_ENGINE_GENERATE_H_
#define NEEDLE_ENGINE_GENERATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/session.h"

namespace needle::engine {

struct GenerateOptions {
  size_t max_new_tokens = 256;
  float temperature = 0;  // 0: greedy
  uint64_t seed = 0;      // of the sampler; the same seed gives the same tokens on every machine
  uint32_t eos_id = 1;
  // Called with each new token (not EOS); false stops. May be empty.
  std::function<bool(uint32_t token)> on_token = {};
};

enum class StopReason { kEos, kLength, kContext, kCallback };  // kContext: max_seq_len is reached
std::string_view StopReasonName(StopReason reason);  // "eos", "length", "context", "callback"

struct Completion {
  std::vector<uint32_t> tokens;  // without EOS
  StopReason stop = StopReason::kEos;
  double prompt_seconds = 0;  // until the first token could be chosen
  double answer_seconds = 0;  // from there
};

// The index of the largest logit, the lowest one on a tie. `logits` is not empty.
uint32_t Argmax(std::span<const float> logits);

// A token drawn from softmax(logits / temperature).
class Sampler {
 public:
  Sampler(float temperature, uint64_t seed) : temperature_(temperature), engine_(seed) {}
  // Greedy at temperature 0. Internal: a logit is not finite.
  absl::StatusOr<uint32_t> Next(std::span<const float> logits);

 private:
  float temperature_;
  std::mt19937_64 engine_;
  std::vector<double> weights_;
};

// Runs `prompt` in `session` and answers. InvalidArgument: an empty prompt, a negative or
// non-finite temperature, or as of Session::Prefill.
absl::StatusOr<Completion> Generate(Session& session, std::span<const uint32_t> prompt,
                                    const GenerateOptions& options);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_GENERATE_H_
