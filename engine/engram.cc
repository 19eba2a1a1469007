#include "engine/engram.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "engine/vector_ops.h"

namespace needle::engine {
namespace {

constexpr uint32_t kSeed = 0x9E3779B9U;
constexpr uint32_t kPrime = 0x01000193U;

}  // namespace

void EngramRows(const format::Geometry& geometry, std::span<const uint32_t> tokens,
                std::span<uint32_t> rows) {
  const uint32_t heads = geometry.EngramHeadsPerOrder();
  const uint32_t stride = geometry.engram_seed_heads != 0 ? geometry.engram_seed_heads : heads;
  for (uint32_t table = 0; table < rows.size(); ++table) {
    const uint32_t order = geometry.engram_orders[table / heads];
    if (tokens.size() < order) {
      rows[table] = Observer::kNoRow;
      continue;
    }
    uint32_t acc = kSeed * (table / heads * stride + table % heads + 1);
    for (uint32_t j = 0; j < order; ++j) acc = (acc ^ tokens[tokens.size() - 1 - j]) * kPrime;
    acc ^= acc >> 15;
    rows[table] = table * geometry.engram_slots + acc % geometry.engram_slots;
  }
}

Engram::Engram(const format::Geometry& geometry)
    : d_(geometry.d_model), width_(geometry.EngramWidth()) {
  if (geometry.engram_sites.empty()) return;
  const size_t depth =
      size_t{std::max(geometry.engram_conv_taps, 1U) - 1} * geometry.engram_conv_dilation;
  rows_.resize(kChunk * geometry.num_engram_tables);
  e_.resize(kChunk * width_);
  key_.resize(kChunk * d_);
  raw_.resize((depth + kChunk) * d_);
  value_.resize(kChunk * d_);
  histories_.assign(geometry.engram_sites.size(), History(depth, d_));
}

void Engram::Reset() {
  for (History& history : histories_) history.Clear();
}

size_t Engram::MemoryBytes() const {
  size_t floats = rows_.size() + e_.size() + key_.size() + raw_.size() + value_.size();
  for (const History& history : histories_) floats += history.depth() * history.width();
  return floats * sizeof(float);
}

void Engram::Hash(const Run& run) {
  const size_t tables = run.geometry.num_engram_tables;
  if (histories_.empty()) return;
  for (size_t t = 0; t < run.count; ++t) {
    EngramRows(run.geometry, run.tokens.first(run.first + t + 1),
               std::span(rows_).subspan(t * tables, tables));
  }
}

absl::Status Engram::Gather(Run& run, size_t site) {
  const size_t tables = run.geometry.num_engram_tables;
  const size_t sub = run.geometry.engram_sub_dim;
  const std::span<const uint32_t> rows = std::span(rows_).first(run.count * tables);
  if (run.observer != nullptr) {
    run.observer->OnEngramGather(static_cast<uint32_t>(site), tables, rows);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<float> values = std::span(e_).subspan(i * sub, sub);
    if (rows[i] == Observer::kNoRow) {
      std::fill(values.begin(), values.end(), 0.0F);
    } else {
      RETURN_IF_ERROR(run.weights.sites[site].tables.Read(rows[i], values));
    }
  }
  if (run.quantizes_inputs()) {
    for (size_t t = 0; t < run.count; ++t) QuantizeInt8(&e_[t * width_], width_);
  }
  return absl::OkStatus();
}

absl::Status Engram::Apply(Run& run, size_t site, std::span<const float> u, std::span<float> v) {
  const VectorOps& ops = Ops();
  const SiteWeights& weights = run.weights.sites[site];
  RETURN_IF_ERROR(Gather(run, site));
  History& history = histories_[site];
  history.Restore(raw_);
  const size_t start = history.depth() * d_;
  input_.Assign(e_, run.count, width_);
  const Product products[] = {
      {&weights.key_proj, 0, d_, key_, d_},
      {&weights.value_proj, 0, d_, std::span(raw_).subspan(start), d_},
  };
  RunProducts(run.pool, run.observer, input_, products);
  const float root = std::sqrt(static_cast<float>(d_));
  run.ForEachPosition([&](size_t t, size_t) {
    float dot = 0;
    ops.multiply(&key_[t * d_], 1, d_, &u[t * d_], 1, &dot, 1);
    dot *= InverseRms(&u[t * d_], d_) * InverseRms(&key_[t * d_], d_);
    float* value = &value_[t * d_];
    CausalConv(weights.taps, d_, run.geometry.engram_conv_dilation, &raw_[start + t * d_], value);
    ops.add_scaled(value, Sigmoid(dot / root), &v[t * d_], d_);
  });
  history.Save(raw_, run.count);
  return absl::OkStatus();
}

}  // namespace needle::engine
