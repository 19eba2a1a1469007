#include "engine/heads.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/vector_ops.h"

namespace needle::engine {
namespace {

using format::HeadKind;
using format::TensorRole;

void Softmax(std::span<float> scores) {
  const VectorOps& ops = Ops();
  ops.exp(scores.data(), scores.size(), ops.max(scores.data(), scores.size()));
  ops.scale(scores.data(), 1.0F / ops.sum(scores.data(), scores.size()), scores.data(),
            scores.size());
}

// softmax(vectors . probe / sqrt(d) + bias) * vectors, for row-major [n, d] vectors; `bias` is
// empty or has n values.
void Pool(std::span<const float> vectors, std::span<const float> probe, std::span<const float> bias,
          std::span<float> pooled) {
  const VectorOps& ops = Ops();
  const size_t d = probe.size();
  std::vector<float> weights(vectors.size() / d);
  const size_t n = weights.size();
  ops.multiply(vectors.data(), n, d, probe.data(), 1, weights.data(), n);
  ops.scale(weights.data(), 1.0F / std::sqrt(static_cast<float>(d)), weights.data(), n);
  for (size_t i = 0; i < bias.size(); ++i) weights[i] += bias[i];
  Softmax(weights);
  ops.small_product(weights.data(), n, vectors.data(), d, 1, n, d, false, pooled.data(), d);
}

void Normalize(std::span<float> values) {
  float squares = 0;
  Ops().multiply(values.data(), 1, values.size(), values.data(), 1, &squares, 1);
  Ops().scale(values.data(), 1.0F / std::sqrt(squares + 1e-12F), values.data(), values.size());
}

}  // namespace

absl::StatusOr<ProbeHeads> ProbeHeads::Load(const WeightSource& source) {
  ProbeHeads heads;
  heads.geometry_ = source.geometry();
  heads.shapes_ = source.schema().heads();
  for (uint32_t h = 0; h < heads.shapes_.size(); ++h) {
    Head head;
    head.shape = heads.shapes_[h];
    const std::pair<TensorRole, std::vector<float>*> tensors[] = {
        {TensorRole::kHeadProbes, &head.probes},
        {TensorRole::kHeadGain, &head.gain},
        {TensorRole::kHeadQuery, &head.query},
        {TensorRole::kHeadRowBias, &head.row_bias},
        {TensorRole::kHeadProj, &head.proj},
        {TensorRole::kHeadBias, &head.bias},
        {TensorRole::kHeadCalibration, &head.calibration}};
    for (const auto& [role, values] : tensors) {
      if (!source.schema().Find({role, h}).has_value()) continue;
      ASSIGN_OR_RETURN(*values, source.Floats({role, h}));
    }
    heads.heads_.push_back(std::move(head));
  }
  return heads;
}

// Every (row, probe): positions pooled, to unit mean square, times gain. [L + 1, k, d]
std::vector<float> ProbeHeads::PoolPositions(const Head& head, std::span<const float> cells) const {
  const size_t d = geometry_.d_model;
  const size_t rows = size_t{geometry_.num_layers} + 1;
  const size_t probes = head.shape.probes;
  std::vector<float> pooled(rows * probes * d);
  std::vector<float> column(cells.size() / rows);  // one row of cells of all positions
  for (size_t r = 0; r < rows; ++r) {
    for (size_t t = 0; t * d < column.size(); ++t) {
      std::copy_n(&cells[(t * rows + r) * d], d, &column[t * d]);
    }
    for (size_t k = 0; k < probes; ++k) {
      const size_t at = r * probes + k;
      const std::span<float> p = std::span(pooled).subspan(at * d, d);
      Pool(column, std::span(head.probes).subspan(at * d, d), {}, p);
      Ops().scale(p.data(), InverseRms(p.data(), d), p.data(), d);
      Ops().scale(p.data(), head.gain[at], p.data(), d);
    }
  }
  return pooled;
}

// What the projection reads: [q * d], Needle 2 [P * d].
std::vector<float> ProbeHeads::Features(const Head& head, std::span<const float> cells) const {
  const size_t d = geometry_.d_model;
  if (geometry_.generation == format::Generation::kNeedle2) {
    std::vector<float> features(head.probes.size());
    for (size_t k = 0; k < head.shape.probes; ++k) {
      Pool(cells, std::span(head.probes).subspan(k * d, d), {},
           std::span(features).subspan(k * d, d));
    }
    return features;
  }
  const std::vector<float> pooled = PoolPositions(head, cells);
  const size_t places = pooled.size() / d;
  std::vector<float> features(head.query.size());
  for (size_t j = 0; j < head.shape.queries; ++j) {
    Pool(pooled, std::span(head.query).subspan(j * d, d),
         std::span(head.row_bias).subspan(j * places, places),
         std::span(features).subspan(j * d, d));
  }
  return features;
}

HeadOutput ProbeHeads::RunHead(const Head& head, std::span<const float> cells) const {
  const std::vector<float> features = Features(head, cells);
  HeadOutput output;
  output.kind = head.shape.kind;
  output.values.resize(head.shape.out);
  Ops().multiply(head.proj.data(), head.shape.out, features.size(), features.data(), 1,
                 output.values.data(), head.shape.out);
  for (size_t i = 0; i < head.bias.size(); ++i) output.values[i] += head.bias[i];
  switch (head.shape.kind) {
    case HeadKind::kEmbedding:
    case HeadKind::kContrastive:
      Normalize(output.values);
      break;
    case HeadKind::kConfidence:
      output.probability = Sigmoid(output.values[0]);
      break;
    case HeadKind::kRouter:
      output.calibration = head.calibration;
      break;
  }
  return output;
}

absl::StatusOr<std::vector<HeadOutput>> ProbeHeads::Run(std::span<const float> cells,
                                                        std::span<const uint32_t> tokens,
                                                        uint32_t pad_id) const {
  const size_t width = (size_t{geometry_.num_layers} + 1) * geometry_.d_model;
  if (cells.size() != tokens.size() * width) {
    return absl::InvalidArgumentError(
        absl::StrFormat("cells of %d positions hold %d values, want %d", tokens.size(),
                        cells.size(), tokens.size() * width));
  }
  std::vector<float> kept;
  kept.reserve(cells.size());
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (tokens[t] == pad_id) continue;
    const std::span<const float> position = cells.subspan(t * width, width);
    kept.insert(kept.end(), position.begin(), position.end());
  }
  if (kept.empty()) return absl::InvalidArgumentError("no position but padding to run heads on");
  std::vector<HeadOutput> outputs;
  for (const Head& head : heads_) outputs.push_back(RunHead(head, kept));
  return outputs;
}

}  // namespace needle::engine
