// engine/session.h: one run of a model over one text: caches and the forward pass.
// Specification: "The model the reference engine runs".
#ifndef NEEDLE_ENGINE_SESSION_H_
#define NEEDLE_ENGINE_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model.h"
#include "engine/observer.h"

namespace needle::engine {

struct SessionOptions {
  bool capture_cells = false;    // keep the hidden cells of every position
  Observer* observer = nullptr;  // must outlive the session
};

// KV cache, convolution and engram history of the positions seen so far. One thread at a time; the
// session's own threads do not show in the results. Prefill and Step of the same tokens agree.
class Session {
 public:
  enum class Logits { kNone, kLast, kAll };

  // `model` must outlive the session.
  explicit Session(const Model& model, const SessionOptions& options = {});
  explicit Session(Model&& model, const SessionOptions& options = {}) = delete;
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Runs one token. Returns its logits [LogitRows]; valid until the next call. OutOfRange: the
  // session is at max_seq_len. InvalidArgument: token >= vocab. After these nothing has changed.
  // DataLoss: activations that are not finite; the session is then back at position 0.
  absl::StatusOr<std::span<const float>> Step(uint32_t token);

  // Runs `tokens` (at least one, else InvalidArgument) as a whole. Returns row-major
  // [1 or tokens.size(), LogitRows] logits, or an empty span for kNone; valid until the next call.
  // Errors as of Step, naming the first bad token's place.
  absl::StatusOr<std::span<const float>> Prefill(std::span<const uint32_t> tokens, Logits logits);

  // Positions run so far.
  size_t position() const;
  // The tokens run so far.
  std::span<const uint32_t> tokens() const;
  // Row-major [position(), num_layers + 1, d_model]: the lanes' mean before the first and after
  // each layer. Empty unless capture_cells. Valid until the next call.
  std::span<const float> cells() const;
  const Model& model() const;

  // Back to position 0; keeps the memory.
  void Reset();
  // Bytes that caches and buffers hold now.
  size_t MemoryBytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_SESSION_H_
