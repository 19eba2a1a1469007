#include "engine/attention.h"

#include <algorithm>

#include "base/status_macros.h"
#include "engine/rope.h"
#include "engine/vector_ops.h"

namespace needle::engine {

using format::Generation;

size_t AttentionWindow(const format::Geometry& geometry, uint32_t layer) {
  if (geometry.generation == Generation::kNeedle2) return geometry.kv_window;
  return geometry.IsGlobal(layer) ? 0 : geometry.sliding_window;
}

Attention::Attention(const format::Geometry& geometry, Numerics numerics, size_t num_workers)
    : d_(geometry.d_model), scratch_(num_workers), statuses_(kChunk) {
  streams_[kQ].heads = geometry.num_heads;
  streams_[kK].heads = streams_[kV].heads = geometry.num_kv_heads;
  streams_[kQ].dim = streams_[kK].dim = geometry.qk_head_dim;
  streams_[kV].dim = geometry.v_head_dim;
  const size_t depth = std::max(geometry.qkv_conv_taps, 1U) - 1;
  for (Stream& stream : streams_) {
    stream.raw.resize((depth + kChunk) * stream.width());
    stream.ready.resize(kChunk * stream.width());
    stream.histories.assign(geometry.num_layers, History(depth, stream.width()));
  }
  gate_.resize(kChunk * geometry.num_heads * geometry.v_head_dim);
  mixed_.resize(gate_.size());
  MakeCaches(geometry, numerics);
}

void Attention::MakeCaches(const format::Geometry& geometry, Numerics numerics) {
  KvShape shape = {.storage = KvStorage::kF32,
                   .qk_dim = geometry.qk_head_dim,
                   .v_dim = geometry.v_head_dim,
                   .kv_bits = geometry.kv_bits};
  if (numerics == Numerics::kKernel) {
    shape.storage = geometry.kv_bits < 8 ? KvStorage::kCq : KvStorage::kInt8;
  } else if (numerics == Numerics::kA8 && geometry.kv_bits < 8) {
    k_codec_.emplace(geometry.kv_bits, shape.qk_dim);
    v_codec_.emplace(geometry.kv_bits, shape.v_dim);
  }
  caches_.resize(geometry.num_layers);
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    const size_t window = AttentionWindow(geometry, layer);
    shape.max_positions = geometry.max_seq_len;
    // A whole chunk is stored before its first position looks back.
    if (window > 0) shape.max_positions = std::min(shape.max_positions, window + kChunk - 1);
    caches_[layer].assign(geometry.num_kv_heads, KvHead(shape));
  }
}

void Attention::Reset() {
  for (Stream& stream : streams_) {
    for (History& history : stream.histories) history.Clear();
  }
}

size_t Attention::MemoryBytes() const {
  size_t bytes = (gate_.size() + mixed_.size()) * sizeof(float);
  for (const Stream& stream : streams_) {
    bytes += (stream.raw.size() + stream.ready.size()) * sizeof(float);
    for (const History& history : stream.histories) {
      bytes += history.depth() * history.width() * sizeof(float);
    }
  }
  for (const auto& layer : caches_) {
    for (const KvHead& head : layer) bytes += head.MemoryBytes();
  }
  return bytes;
}

absl::Status Attention::Mix(Run& run, size_t layer, std::span<float> out) {
  run.ForEachPosition([&](size_t t, size_t) { statuses_[t] = Prepare(run, layer, t); });
  for (size_t t = 0; t < run.count; ++t) RETURN_IF_ERROR(statuses_[t]);
  for (Stream& stream : streams_) stream.histories[layer].Save(stream.raw, run.count);
  RETURN_IF_ERROR(Store(run, layer));
  Attend(run, layer);
  const size_t width = streams_[kQ].heads * streams_[kV].dim;
  run.ForEachPosition([&](size_t t, size_t) {
    float* gate = &gate_[t * width];
    float* mixed = &mixed_[t * width];
    Ops().sigmoid(gate, width);
    Ops().product(gate, mixed, mixed, width);
    if (run.quantizes_inputs()) QuantizeInt8(mixed, width);
  });
  output_.Assign(mixed_, run.count, width);
  const Product product = {&run.weights.layers[layer].out_proj, 0, d_, out, d_};
  RunProducts(run.pool, run.observer, output_, {&product, 1});
  return absl::OkStatus();
}

void Attention::Project(Run& run, size_t layer, std::span<float> x) {
  if (run.quantizes_inputs()) {
    run.ForEachPosition([&](size_t t, size_t) { QuantizeInt8(&x[t * d_], d_); });
  }
  const LayerWeights& w = run.weights.layers[layer];
  const auto rows = [&](Stream& stream) {
    const History& history = stream.histories[layer];
    history.Restore(stream.raw);
    return std::span(stream.raw).subspan(history.depth() * stream.width());
  };
  const auto whole = [](const Matrix& matrix, std::span<float> y) {
    return Product{&matrix, 0, matrix.rows(), y, matrix.rows()};
  };
  input_.Assign(x, run.count, d_);
  const Product products[] = {whole(w.q_proj, rows(streams_[kQ])),
                              whole(w.k_proj, rows(streams_[kK])),
                              whole(w.v_proj, rows(streams_[kV])), whole(w.gate_proj, gate_)};
  RunProducts(run.pool, run.observer, input_, products);
}

// Convolution, norm, RoPE and quantisation of position t.
absl::Status Attention::Prepare(const Run& run, size_t layer, size_t t) {
  const LayerWeights& w = run.weights.layers[layer];
  const std::vector<float>* taps[] = {&w.q_taps, &w.k_taps, &w.v_taps};
  const std::vector<float>* gains[] = {&w.q_norm, &w.k_norm, nullptr};
  const bool quantizes_q = run.quantizes() && run.geometry.generation == Generation::kNeedle3;
  for (const int which : {kQ, kK, kV}) {
    Stream& stream = streams_[which];
    const size_t width = stream.width();
    const float* raw = &stream.raw[(stream.histories[layer].depth() + t) * width];
    float* ready = &stream.ready[t * width];
    if (taps[which]->empty()) {
      std::copy_n(raw, width, ready);
    } else {
      CausalConv(*taps[which], width, 1, raw, ready);
    }
    const size_t half = run.geometry.qk_head_dim / 2;
    for (size_t h = 0; h < stream.heads; ++h) {
      const std::span<float> head(ready + h * stream.dim, stream.dim);
      if (which != kV) {
        Ops().scale_gain(head.data(), InverseRms(head.data(), stream.dim), gains[which]->data(),
                         head.data(), stream.dim);
        Rope::Apply(head, std::span(run.cosines).subspan(t * half, half),
                    std::span(run.sines).subspan(t * half, half));
      }
      if (which == kQ) {
        if (quantizes_q) QuantizeInt8(head.data(), head.size());
      } else {
        const auto& codec = which == kK ? k_codec_ : v_codec_;
        RETURN_IF_ERROR(QuantizeKv(run, head, codec.has_value() ? &*codec : nullptr));
      }
    }
  }
  return absl::OkStatus();
}

// What a8 does to a key or value; in kernel numerics storing it does.
absl::Status Attention::QuantizeKv(const Run& run, std::span<float> head,
                                   const KvCodec* codec) const {
  if (run.numerics != Numerics::kA8) return absl::OkStatus();
  if (codec != nullptr) return codec->RoundTrip(head);
  if (run.geometry.generation == Generation::kNeedle3) QuantizeInt8(head.data(), head.size());
  return absl::OkStatus();
}

absl::Status Attention::Store(Run& run, size_t layer) {
  const Stream& k = streams_[kK];
  const Stream& v = streams_[kV];
  for (size_t h = 0; h < k.heads; ++h) {
    KvHead& cache = caches_[layer][h];
    cache.Reserve(run.first + run.count);
    for (AttendScratch& scratch : scratch_) {
      cache.Prepare(streams_[kQ].heads / k.heads, scratch);
    }
    for (size_t t = 0; t < run.count; ++t) {
      RETURN_IF_ERROR(cache.Append(run.first + t,
                                   std::span(k.ready).subspan((t * k.heads + h) * k.dim, k.dim),
                                   std::span(v.ready).subspan((t * v.heads + h) * v.dim, v.dim)));
    }
  }
  return absl::OkStatus();
}

void Attention::Attend(Run& run, size_t layer) {
  const Stream& q = streams_[kQ];
  const size_t v_dim = streams_[kV].dim;
  const size_t kv_heads = caches_[layer].size();
  const size_t group = q.heads / kv_heads;  // query heads that read one kv head
  const size_t window = AttentionWindow(run.geometry, static_cast<uint32_t>(layer));
  const auto body = [&](size_t begin, size_t end, size_t worker) {
    for (size_t i = begin; i < end; ++i) {
      const size_t t = i / kv_heads;
      const size_t head = i % kv_heads * group;
      const size_t last = run.first + t;
      const size_t first = window == 0 || last < window ? 0 : last + 1 - window;
      caches_[layer][i % kv_heads].Attend(&q.ready[(t * q.heads + head) * q.dim], group, first,
                                          last, scratch_[worker],
                                          &mixed_[(t * q.heads + head) * v_dim]);
    }
  };
  run.pool.ParallelFor(run.count * kv_heads, 1, std::ref(body));
}

}  // namespace needle::engine
