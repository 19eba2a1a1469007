#include "engine/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "engine/run.h"
#include "engine/trunk.h"

namespace needle::engine {

struct Session::State {
  State(const Model& model_in, const SessionOptions& options_in);

  absl::Status Check(std::span<const uint32_t> new_tokens) const;
  // Runs positions [first, first + count) of tokens; logits of the last `num_logits` of them go to
  // `logits` [num_logits, LogitRows].
  absl::Status RunChunk(size_t first, size_t count, size_t num_logits, std::span<float> logits);
  void Capture(const Run& run, size_t row);
  void Logits(Run& run, size_t count, std::span<float> logits);

  const Model& model;
  SessionOptions options;
  base::ThreadPool pool;
  Trunk trunk;

  std::vector<uint32_t> tokens;
  std::vector<float> cells;
  std::vector<float> logits;
  std::vector<float> heads;  // [kChunk, d]
  Activations head_input;
};

Session::State::State(const Model& model_in, const SessionOptions& options_in)
    : model(model_in),
      options(options_in),
      pool(base::ResolveThreads(model.options().threads)),
      trunk(model.geometry(), model.numerics(), pool.num_threads()),
      heads(kChunk * model.geometry().d_model) {}

absl::Status Session::State::Check(std::span<const uint32_t> new_tokens) const {
  const format::Geometry& geometry = model.geometry();
  if (new_tokens.empty()) return absl::InvalidArgumentError("no tokens to run");
  if (new_tokens.size() > geometry.max_seq_len - tokens.size()) {
    return absl::OutOfRangeError(absl::StrFormat("%d tokens after %d: max_seq_len is %d",
                                                 new_tokens.size(), tokens.size(),
                                                 geometry.max_seq_len));
  }
  for (size_t i = 0; i < new_tokens.size(); ++i) {
    if (new_tokens[i] < geometry.vocab) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("token %d is %d, want an id below %d", i, new_tokens[i], geometry.vocab));
  }
  return absl::OkStatus();
}

absl::Status Session::State::RunChunk(size_t first, size_t count, size_t num_logits,
                                      std::span<float> logits_out) {
  Run run = trunk.Begin(model.weights(), model.numerics(), pool, options.observer, model.geometry(),
                        tokens, first, count);
  RETURN_IF_ERROR(trunk.Embed(run));
  Capture(run, 0);
  for (size_t layer = 0; layer < run.geometry.num_layers; ++layer) {
    RETURN_IF_ERROR(trunk.RunLayer(run, layer));
    Capture(run, layer + 1);
  }
  if (num_logits > 0) Logits(run, num_logits, logits_out);
  return absl::OkStatus();
}

void Session::State::Capture(const Run& run, size_t row) {
  if (!options.capture_cells) return;
  const size_t d = run.geometry.d_model;
  const size_t rows = size_t{run.geometry.num_layers} + 1;
  cells.resize((run.first + run.count) * rows * d);
  for (size_t t = 0; t < run.count; ++t) {
    trunk.lanes().Mean(t, std::span(cells).subspan(((run.first + t) * rows + row) * d, d));
  }
}

void Session::State::Logits(Run& run, size_t count, std::span<float> out) {
  const size_t d = run.geometry.d_model;
  const size_t rows = run.geometry.LogitRows();
  for (size_t i = 0; i < count; ++i) {
    trunk.HeadInput(run.weights, run.numerics, run.count - count + i,
                    std::span(heads).subspan(i * d, d));
  }
  head_input.Assign(heads, count, d);
  const Product product = {&run.weights.head, 0, rows, out, rows};
  RunProducts(pool, options.observer, head_input, {&product, 1});
}

Session::Session(const Model& model, const SessionOptions& options)
    : state_(std::make_unique<State>(model, options)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

absl::StatusOr<std::span<const float>> Session::Step(uint32_t token) {
  return Prefill({&token, 1}, Logits::kLast);
}

absl::StatusOr<std::span<const float>> Session::Prefill(std::span<const uint32_t> tokens,
                                                        Logits logits) {
  State& state = *state_;
  RETURN_IF_ERROR(state.Check(tokens));
  const size_t first = state.tokens.size();
  const size_t rows = state.model.geometry().LogitRows();
  const size_t wanted = logits == Logits::kAll ? tokens.size() : logits == Logits::kLast ? 1 : 0;
  state.tokens.insert(state.tokens.end(), tokens.begin(), tokens.end());
  state.logits.resize(wanted * rows);
  for (size_t begin = 0; begin < tokens.size(); begin += kChunk) {
    const size_t count = std::min(kChunk, tokens.size() - begin);
    const bool last = begin + count == tokens.size();
    const size_t here = logits == Logits::kAll ? count : last ? wanted : 0;
    const size_t row = logits == Logits::kAll ? begin : 0;
    const absl::Status status =
        state.RunChunk(first + begin, count, here, std::span(state.logits).subspan(row * rows));
    if (!status.ok()) {
      Reset();
      return status;
    }
  }
  return std::span<const float>(state.logits);
}

size_t Session::position() const { return state_->tokens.size(); }
std::span<const uint32_t> Session::tokens() const { return state_->tokens; }
std::span<const float> Session::cells() const { return state_->cells; }
const Model& Session::model() const { return state_->model; }

void Session::Reset() {
  state_->tokens.clear();
  state_->cells.clear();
  state_->trunk.Reset();
}

size_t Session::MemoryBytes() const {
  const State& state = *state_;
  const size_t floats = state.cells.size() + state.logits.size() + state.heads.size();
  return floats * sizeof(float) + state.tokens.size() * sizeof(uint32_t) +
         state.trunk.MemoryBytes();
}

}  // namespace needle::engine
