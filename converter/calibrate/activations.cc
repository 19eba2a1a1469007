#include "converter/calibrate/activations.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/observer.h"

namespace needle::calibrate {
namespace {

using engine::LayerPart;

constexpr size_t kBatchPositions = 1024;

// The first of the matrices that read a part's inputs.
format::TensorRole FirstRole(LayerPart part) {
  switch (part) {
    case LayerPart::kLanes:
      return format::TensorRole::kMhcPhiPre;
    case LayerPart::kEngram:
      return format::TensorRole::kEngramKeyProj;
    case LayerPart::kAttention:
      return format::TensorRole::kQProj;
    case LayerPart::kOutput:
    case LayerPart::kWhole:
      return format::TensorRole::kOutProj;
  }
  return format::TensorRole::kOutProj;
}

// Copies the inputs of some parts to where their positions belong; parts without room are not
// wanted.
class Collector final : public engine::Observer {
 public:
  void Want(LayerPart part, std::span<float> x) { room_[static_cast<size_t>(part)] = x; }

  void OnTokens(size_t first_position, std::span<const uint32_t>) override {
    position_ = first_position;
  }
  void OnProduct(const engine::ProductInput& input) override {
    for (size_t part = 0; part < kNumParts; ++part) {
      if (room_[part].empty() || input.id.role != FirstRole(static_cast<LayerPart>(part))) continue;
      std::copy(input.x.begin(), input.x.end(),
                room_[part].begin() + static_cast<ptrdiff_t>(position_ * input.cols));
    }
  }

 private:
  std::array<std::span<float>, kNumParts> room_;
  size_t position_ = 0;
};

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

// Where each stream's positions start among those of all.
std::vector<size_t> Offsets(std::span<const Stream> streams) {
  std::vector<size_t> offsets = {0};
  for (const Stream& stream : streams) offsets.push_back(offsets.back() + stream.weights.size());
  return offsets;
}

void Prepare(std::span<const Stream> some, size_t cols, Inputs& inputs) {
  inputs.cols = cols;
  inputs.weights.clear();
  for (const Stream& stream : some) {
    inputs.weights.insert(inputs.weights.end(), stream.weights.begin(), stream.weights.end());
  }
  inputs.x.resize(inputs.weights.size() * cols);
}

}  // namespace

size_t PartColumns(const format::Geometry& geometry, LayerPart part) {
  switch (part) {
    case LayerPart::kLanes:
      return size_t{geometry.mhc_lanes} * geometry.d_model;
    case LayerPart::kEngram:
      return geometry.EngramWidth();
    case LayerPart::kAttention:
      return geometry.d_model;
    case LayerPart::kOutput:
    case LayerPart::kWhole:
      break;
  }
  return size_t{geometry.num_heads} * geometry.v_head_dim;
}

ActivationRunner::ActivationRunner(const format::Geometry& geometry, engine::Numerics numerics,
                                   base::ThreadPool& pool)
    : d_(geometry.d_model), pool_(pool) {
  for (size_t i = 0; i < pool.num_threads(); ++i) runners_.emplace_back(geometry, numerics);
}

absl::Status ActivationRunner::ForEach(
    std::span<Stream> streams,
    const std::function<absl::Status(engine::LayerRunner&, Stream&, size_t)>& run) {
  std::vector<absl::Status> statuses(streams.size());
  pool_.ParallelFor(streams.size(), 1, [&](size_t begin, size_t end, size_t worker) {
    for (size_t i = begin; i < end; ++i) statuses[i] = run(runners_[worker], streams[i], i);
  });
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (!statuses[i].ok()) {
      return base::WithContext(statuses[i], absl::StrFormat("example %d", i + 1));
    }
  }
  return absl::OkStatus();
}

absl::Status ActivationRunner::Embed(const engine::LayerModel& ends,
                                     std::span<const Example> examples, Streams& streams) {
  const format::Geometry& geometry = ends.source().geometry();
  streams.clear();
  for (const Example& example : examples) {
    Stream& stream = streams.emplace_back();
    stream.example = &example;
    stream.weights = PositionWeights(example);
    stream.values.resize(example.tokens.size() * geometry.mhc_lanes * d_);
  }
  return ForEach(streams, [&](engine::LayerRunner& runner, Stream& stream, size_t) {
    return runner.Embed(ends, stream.example->tokens, stream.values);
  });
}

absl::Status ActivationRunner::Advance(const engine::LayerModel& layer, Streams& streams) {
  return ForEach(streams, [&](engine::LayerRunner& runner, Stream& stream, size_t) {
    RETURN_IF_ERROR(
        runner.RunLayer(layer, stream.example->tokens, LayerPart::kWhole, nullptr, stream.values));
    if (AllFinite(stream.values)) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrFormat("activations after layer %d are not finite", layer.layer()));
  });
}

absl::Status ActivationRunner::AdvanceAndKeep(const engine::LayerModel& layer, Streams& streams) {
  const format::Geometry& geometry = layer.source().geometry();
  const bool has_site = std::ranges::count(geometry.engram_sites, layer.layer()) > 0;
  return ForEach(streams, [&](engine::LayerRunner& runner, Stream& stream, size_t) {
    Collector collector;
    for (size_t i = 0; i < kNumParts; ++i) {
      const auto part = static_cast<LayerPart>(i);
      if (part == LayerPart::kEngram && !has_site) continue;
      stream.kept[i].resize(stream.weights.size() * PartColumns(geometry, part));
      collector.Want(part, stream.kept[i]);
    }
    RETURN_IF_ERROR(runner.RunLayer(layer, stream.example->tokens, LayerPart::kWhole, &collector,
                                    stream.values));
    if (AllFinite(stream.values) && std::ranges::all_of(stream.kept, AllFinite)) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrFormat("activations in layer %d are not finite", layer.layer()));
  });
}

absl::Status ActivationRunner::Collect(const engine::LayerModel& layer, LayerPart part,
                                       std::span<Stream> some, Inputs& inputs) {
  Prepare(some, PartColumns(layer.source().geometry(), part), inputs);
  const std::vector<size_t> offsets = Offsets(some);
  return ForEach(some, [&](engine::LayerRunner& runner, Stream& stream, size_t i) {
    const std::span<float> x =
        std::span(inputs.x).subspan(offsets[i] * inputs.cols, stream.weights.size() * inputs.cols);
    Collector collector;
    collector.Want(part, x);
    RETURN_IF_ERROR(
        runner.RunLayer(layer, stream.example->tokens, part, &collector, stream.values));
    if (AllFinite(x)) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrFormat("activations in layer %d are not finite", layer.layer()));
  });
}

void ActivationRunner::CollectHead(const engine::LayerModel& ends, std::span<Stream> some,
                                   Inputs& inputs) {
  Prepare(some, d_, inputs);
  const std::vector<size_t> offsets = Offsets(some);
  pool_.ParallelFor(some.size(), 1, [&](size_t begin, size_t end, size_t worker) {
    for (size_t i = begin; i < end; ++i) {
      runners_[worker].HeadInputs(
          ends, some[i].values,
          std::span(inputs.x).subspan(offsets[i] * d_, some[i].weights.size() * d_));
    }
  });
}

void TakeKept(LayerPart part, std::span<const Stream> some, Inputs& inputs) {
  inputs.weights.clear();
  inputs.x.clear();
  for (const Stream& stream : some) {
    const std::vector<float>& kept = stream.kept[static_cast<size_t>(part)];
    inputs.cols = kept.size() / stream.weights.size();
    inputs.weights.insert(inputs.weights.end(), stream.weights.begin(), stream.weights.end());
    inputs.x.insert(inputs.x.end(), kept.begin(), kept.end());
  }
}

std::vector<std::span<Stream>> Batches(Streams& streams) {
  std::vector<std::span<Stream>> batches;
  for (size_t begin = 0; begin < streams.size();) {
    size_t end = begin;
    for (size_t positions = 0; end < streams.size() && positions < kBatchPositions; ++end) {
      positions += streams[end].weights.size();
    }
    batches.push_back(std::span(streams).subspan(begin, end - begin));
    begin = end;
  }
  return batches;
}

}  // namespace needle::calibrate
