#include "engine/session.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "engine/attention.h"
#include "engine/engram.h"
#include "engine/hadamard_mlp.h"
#include "engine/lanes.h"
#include "engine/rope.h"
#include "engine/run.h"
#include "engine/vector_ops.h"
#include "engine/weights.h"

namespace needle::engine {

struct Session::State {
  State(const Model& model_in, const SessionOptions& options_in);

  absl::Status Check(std::span<const uint32_t> new_tokens) const;
  // Runs positions [first, first + count) of tokens; logits of the last `num_logits` of them go to
  // `logits` [num_logits, LogitRows].
  absl::Status RunChunk(size_t first, size_t count, size_t num_logits, std::span<float> logits);
  absl::Status Embed(Run& run);
  absl::Status RunLayer(Run& run, size_t layer);
  void Capture(const Run& run, size_t row);
  void Logits(Run& run, size_t count, std::span<float> logits);

  const Model& model;
  SessionOptions options;
  base::ThreadPool pool;
  Rope rope;
  Lanes lanes;
  Attention attention;
  HadamardMlp mlp;
  Engram engram;

  std::vector<uint32_t> tokens;
  std::vector<float> cells;
  std::vector<float> logits;
  std::vector<float> u, v, normed, update;  // [kChunk, d]
  std::vector<float> cosines, sines;        // [kChunk, qk / 2]
  Activations head_input;
};

Session::State::State(const Model& model_in, const SessionOptions& options_in)
    : model(model_in),
      options(options_in),
      pool(base::ResolveThreads(model.options().threads)),
      rope(model.geometry().rope_theta, model.geometry().qk_head_dim),
      lanes(model.geometry()),
      attention(model.geometry(), model.numerics(), pool.num_threads()),
      mlp(model.geometry(), pool.num_threads()),
      engram(model.geometry()) {
  const size_t values = kChunk * model.geometry().d_model;
  for (std::vector<float>* buffer : {&u, &v, &normed, &update}) buffer->resize(values);
  cosines.resize(kChunk * rope.half());
  sines.resize(kChunk * rope.half());
}

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
  Run run = {.geometry = model.geometry(),
             .weights = model.weights(),
             .numerics = model.numerics(),
             .pool = pool,
             .observer = options.observer,
             .first = first,
             .count = count,
             .tokens = std::span(tokens).first(first + count),
             .cosines = cosines,
             .sines = sines};
  if (run.observer != nullptr) run.observer->OnTokens(first, run.tokens.subspan(first));
  for (size_t t = 0; t < count; ++t) {
    rope.Angles(first + t, std::span(cosines).subspan(t * rope.half(), rope.half()),
                std::span(sines).subspan(t * rope.half(), rope.half()));
  }
  engram.Hash(run);
  RETURN_IF_ERROR(Embed(run));
  Capture(run, 0);
  for (size_t layer = 0; layer < run.geometry.num_layers; ++layer) {
    RETURN_IF_ERROR(RunLayer(run, layer));
    Capture(run, layer + 1);
  }
  if (num_logits > 0) Logits(run, num_logits, logits_out);
  return absl::OkStatus();
}

// x0 = E[token] * sqrt(d).
absl::Status Session::State::Embed(Run& run) {
  const size_t d = run.geometry.d_model;
  const float root = std::sqrt(static_cast<float>(d));
  for (size_t t = 0; t < run.count; ++t) {
    const std::span<float> x0 = std::span(u).subspan(t * d, d);
    RETURN_IF_ERROR(run.weights.embedding.Read(run.tokens[run.first + t], x0));
    Ops().scale(x0.data(), root, x0.data(), d);
    lanes.Start(t, x0);
  }
  return absl::OkStatus();
}

// The specification's "Layer i"; the numbers are its steps.
absl::Status Session::State::RunLayer(Run& run, size_t layer) {
  const VectorOps& ops = Ops();
  const LayerWeights& weights = run.weights.layers[layer];
  const size_t d = run.geometry.d_model;
  lanes.Read(run, layer, u);  // 1, 2
  std::copy_n(u.begin(), run.count * d, v.begin());
  const auto& sites = run.geometry.engram_sites;
  const auto site = std::find(sites.begin(), sites.end(), layer);
  if (site != sites.end()) {  // 3
    RETURN_IF_ERROR(engram.Apply(run, static_cast<size_t>(site - sites.begin()), u, v));
  }
  const auto norm = [&](size_t t, const std::vector<float>& from, const std::vector<float>& gain,
                        std::vector<float>& to) {
    const float* x = &from[t * d];
    ops.scale_gain(x, InverseRms(x, d), gain.data(), &to[t * d], d);
  };
  run.ForEachPosition([&](size_t t, size_t) { norm(t, v, weights.norm_in, normed); });
  RETURN_IF_ERROR(attention.Apply(run, layer, normed, update));  // 4
  run.ForEachPosition([&](size_t t, size_t) {
    norm(t, update, weights.post_norm, update);
    ops.add_scaled(&update[t * d], weights.attn_gate, &v[t * d], d);
    norm(t, v, weights.pre_hada, normed);
  });
  mlp.Apply(run, weights, normed, update);
  run.ForEachPosition([&](size_t t, size_t) {  // 5
    float* y = lanes.Output(t).data();
    ops.scale(&v[t * d], 1.0F, y, d);
    ops.add_scaled(&update[t * d], 1.0F, y, d);
    ops.add_scaled(&u[t * d], -1.0F, y, d);
  });
  lanes.Write(run);  // 6, 7
  return absl::OkStatus();
}

void Session::State::Capture(const Run& run, size_t row) {
  if (!options.capture_cells) return;
  const size_t d = run.geometry.d_model;
  const size_t rows = size_t{run.geometry.num_layers} + 1;
  cells.resize((run.first + run.count) * rows * d);
  for (size_t t = 0; t < run.count; ++t) {
    lanes.Mean(t, std::span(cells).subspan(((run.first + t) * rows + row) * d, d));
  }
}

void Session::State::Logits(Run& run, size_t count, std::span<float> out) {
  const size_t d = run.geometry.d_model;
  const size_t rows = run.geometry.LogitRows();
  for (size_t i = 0; i < count; ++i) {
    float* h = &normed[i * d];
    lanes.Mean(run.count - count + i, {h, d});
    Ops().scale_gain(h, InverseRms(h, d), run.weights.final_norm.data(), h, d);
    if (run.quantizes_inputs()) QuantizeInt8(h, d);
  }
  head_input.Assign(normed, count, d);
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
  state_->attention.Reset();
  state_->engram.Reset();
}

size_t Session::MemoryBytes() const {
  const State& state = *state_;
  const size_t floats =
      state.cells.size() + state.logits.size() + state.u.size() * 4 + state.cosines.size() * 2;
  return floats * sizeof(float) + state.tokens.size() * sizeof(uint32_t) +
         state.attention.MemoryBytes() + state.engram.MemoryBytes() + state.lanes.MemoryBytes();
}

}  // namespace needle::engine
