#include "converter/calibrate/model_fit.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "converter/tensor_source.h"
#include "converter/verify/plan_weights.h"
#include "engine/moments.h"

namespace needle::calibrate {
namespace {

using engine::LayerModel;
using engine::LayerPart;
using engine::Numerics;
using format::TensorRole;
using quant::DenseMatrix;

// docs/quantisation.md, Settings.
constexpr double kDamping = 0.01;         // of activations' moments
constexpr double kIdentityShare = 0.1;    // of the embedding's and the tables' metric
constexpr double kKeyShare = 0.25;        // of the key projection in the tables' metric
constexpr uint64_t kTokensPerInput = 20;  // fewer are too few to trust

constexpr std::string_view kHeadSection = "head inputs";

// Only positions that predict an answer, or all when there are none.
void KeepAnswers(bool answers, Inputs& inputs) {
  for (float& weight : inputs.weights) weight = weight == 1.0F || !answers ? 1.0F : 0.0F;
}

std::string_view PartName(LayerPart part) {
  switch (part) {
    case LayerPart::kLanes:
      return "mhc_phi inputs";
    case LayerPart::kEngram:
      return "engram inputs";
    case LayerPart::kAttention:
      return "attention inputs";
    case LayerPart::kOutput:
      return "out_proj inputs";
    case LayerPart::kWhole:
      break;
  }
  return "layer outputs";
}

// Columns [first, first + count) of row-major f32 rows.
DenseMatrix Columns(std::span<const float> values, size_t cols, size_t first, size_t count) {
  DenseMatrix result(values.size() / cols, count);
  for (size_t r = 0; r < result.rows(); ++r) {
    for (size_t c = 0; c < count; ++c)
      result.at(r, c) = static_cast<double>(values[r * cols + first + c]);
  }
  return result;
}

// sum += share * m^T m / trace(m^T m), where there is any.
void AddNormalized(const DenseMatrix& matrix, double share, base::ThreadPool& pool,
                   DenseMatrix& sum) {
  const DenseMatrix square = Product(Transposed(matrix), matrix, pool);
  const double trace = Trace(square);
  if (!(trace > 0)) return;
  for (size_t i = 0; i < sum.values().size(); ++i) {
    sum.values()[i] += share * (square.values()[i] / trace);
  }
}

uint64_t StreamBytes(const Streams& streams) {
  uint64_t bytes = 0;
  for (const Stream& stream : streams) {
    bytes += stream.values.size() * sizeof(float);
    for (const std::vector<float>& kept : stream.kept) bytes += kept.size() * sizeof(float);
  }
  return bytes;
}

}  // namespace

ModelFit::ModelFit(std::shared_ptr<const converter::TensorPlan> plan, const EncodedTensors& plain,
                   const CalibrationSet& set, const CalibrateOptions& options, StatsFile* stats,
                   base::ThreadPool& pool, CalibrationReport& report)
    : plan_(std::move(plan)),
      options_(options),
      stats_(stats),
      pool_(pool),
      report_(report),
      rows_(*plan_, plain, options, pool, report),
      wanted_source_(std::make_shared<verify::PlanWeights>(plan_)),
      found_source_(std::make_shared<EncodedWeights>(plan_, rows_.chosen())),
      wanted_runner_(plan_->geometry(), Numerics::kFloat, pool),
      found_runner_(plan_->geometry(), Numerics::kA8, pool) {
  // Saved moments stand for the runs of the fit part.
  if (!reads_stats()) fit_.examples = set.fit;
  guard_.examples = set.guard;
}

absl::StatusOr<std::shared_ptr<const EncodedTensors>> ModelFit::Run() {
  const size_t layers = plan_->geometry().num_layers;
  RETURN_IF_ERROR(FitHeads());
  RETURN_IF_ERROR(EmbedWanted());
  if (sequential()) {
    for (size_t i = 0; i < layers; ++i) {
      RETURN_IF_ERROR(Tell(i));
      ASSIGN_OR_RETURN(const LayerModel layer,
                       LayerModel::LoadLayer(wanted_source_, Numerics::kFloat, i));
      RETURN_IF_ERROR(wanted_runner_.Advance(layer, fit_.wanted));
      RETURN_IF_ERROR(wanted_runner_.Advance(layer, guard_.wanted));
    }
    RETURN_IF_ERROR(FitEmbedding());
    RETURN_IF_ERROR(EmbedWanted());
    RETURN_IF_ERROR(EmbedFound());
  }
  for (size_t i = 0; i < layers; ++i) {
    RETURN_IF_ERROR(Tell(layers + i));
    RETURN_IF_ERROR(FitLayer(i));
  }
  if (!sequential()) RETURN_IF_ERROR(FitEmbedding());
  for (const auto& [part, found] : dead_) {
    report_.AddWarning(
        absl::StrFormat("dead-inputs: %s: up to %d channels are always zero (layers %s)",
                        std::string(PartName(part)), found.first, found.second));
  }
  return std::shared_ptr<const EncodedTensors>(rows_.chosen());
}

absl::Status ModelFit::Tell(size_t done) {
  const CalibrateProgress progress = {"layers", done, 2 * size_t{plan_->geometry().num_layers}};
  if (!options_.progress || options_.progress(progress)) return absl::OkStatus();
  return absl::CancelledError("calibration was stopped");
}

absl::Status ModelFit::EmbedWanted() {
  ASSIGN_OR_RETURN(const LayerModel ends, LayerModel::LoadEnds(wanted_source_, Numerics::kFloat));
  RETURN_IF_ERROR(wanted_runner_.Embed(ends, fit_.examples, fit_.wanted));
  return wanted_runner_.Embed(ends, guard_.examples, guard_.wanted);
}

absl::Status ModelFit::EmbedFound() {
  ASSIGN_OR_RETURN(const LayerModel ends, LayerModel::LoadEnds(found_source_, Numerics::kA8));
  RETURN_IF_ERROR(found_runner_.Embed(ends, fit_.examples, fit_.found));
  return found_runner_.Embed(ends, guard_.examples, guard_.found);
}

TensorRows ModelFit::Whole(TensorRole role, uint32_t index) const {
  const size_t position = *plan_->schema().Find({role, index});
  const format::TensorSpec& spec = plan_->schema().tensors()[position];
  return {position, 0, spec.shape[0], spec.name};
}

TensorRows ModelFit::LayerRows(TensorRole role, size_t layer) const {
  TensorRows rows = Whole(role, 0);
  rows.count /= plan_->geometry().num_layers;
  rows.first = layer * rows.count;
  absl::StrAppend(&rows.name, ", layer ", layer);
  return rows;
}

absl::Status ModelFit::FitHeads() {
  for (const format::TensorSpec& spec : plan_->schema().tensors()) {
    if (!format::IsHeadRole(spec.id.role) || spec.dtype != format::DType::kCq) continue;
    const TensorRows rows = Whole(spec.id.role, spec.id.index);
    if (options_.recipe == Recipe::kBest) {
      RETURN_IF_ERROR(rows_.Search(rows));
    } else {
      rows_.KeepPlain(rows.position);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelFit::DenseMoments> ModelFit::MeasureHead(const LayerModel& ends, bool answers) {
  const size_t d = plan_->geometry().d_model;
  DenseMoments moments;
  if (reads_stats()) {
    ASSIGN_OR_RETURN(moments.inputs, stats_->Find(kHeadSection, d, true));
    return moments;
  }
  engine::MomentSum sum(d, true);
  for (const std::span<Stream> batch : Batches(fit_.wanted)) {
    Inputs inputs;
    wanted_runner_.CollectHead(ends, batch, inputs);
    KeepAnswers(answers, inputs);
    sum.Add(inputs.x, inputs.x, inputs.weights, pool_);
  }
  moments.inputs = std::move(sum).Take();
  if (stats_ != nullptr) RETURN_IF_ERROR(stats_->Add(kHeadSection, moments.inputs, true));
  return moments;
}

// The embedding is fitted as the tied head: an identity share stands for its use as input, and rows
// that the head does not read go by norm search.
absl::Status ModelFit::FitEmbedding() {
  ASSIGN_OR_RETURN(const LayerModel ends, LayerModel::LoadEnds(wanted_source_, Numerics::kFloat));
  const bool answers = report_.answer_tokens > 0;
  ASSIGN_OR_RETURN(const DenseMoments moments, MeasureHead(ends, answers));
  const auto input = MakeInputMetric(moments.inputs, nullptr, kIdentityShare, pool_);
  GuardInputs guard;
  wanted_runner_.CollectHead(ends, guard_.wanted, guard.wanted);
  KeepAnswers(answers, guard.wanted);
  TensorRows rows = Whole(TensorRole::kEmbedding, 0);
  const TensorRows all = rows;
  rows.count = plan_->geometry().LogitRows();
  RETURN_IF_ERROR(rows_.Fit(rows, input ? &*input : nullptr, &guard));
  if (rows.count == all.count) return absl::OkStatus();
  return rows_.Search({all.position, rows.count, all.count - rows.count,
                       absl::StrCat(all.name, ", input-only rows")});
}

absl::Status ModelFit::FitLayer(size_t layer) {
  ASSIGN_OR_RETURN(const LayerModel wanted,
                   LayerModel::LoadLayer(wanted_source_, Numerics::kFloat, layer));
  RETURN_IF_ERROR(wanted_runner_.AdvanceAndKeep(wanted, fit_.wanted));
  RETURN_IF_ERROR(wanted_runner_.AdvanceAndKeep(wanted, guard_.wanted));
  const auto index = static_cast<uint32_t>(layer);
  const TensorRows phi[] = {LayerRows(TensorRole::kMhcPhiPre, layer),
                            LayerRows(TensorRole::kMhcPhiPost, layer),
                            LayerRows(TensorRole::kMhcPhiRes, layer)};
  RETURN_IF_ERROR(FitPart(layer, LayerPart::kLanes, phi));
  const auto& sites = plan_->geometry().engram_sites;
  if (const auto site = std::ranges::find(sites, index); site != sites.end()) {
    const auto number = static_cast<uint32_t>(site - sites.begin());
    RETURN_IF_ERROR(FitTables(number));
    const TensorRows engram[] = {Whole(TensorRole::kEngramKeyProj, number),
                                 Whole(TensorRole::kEngramValueProj, number)};
    RETURN_IF_ERROR(FitPart(layer, LayerPart::kEngram, engram));
  }
  const TensorRows attention[] = {
      Whole(TensorRole::kQProj, index), Whole(TensorRole::kKProj, index),
      Whole(TensorRole::kVProj, index), Whole(TensorRole::kGateProj, index)};
  RETURN_IF_ERROR(FitPart(layer, LayerPart::kAttention, attention));
  const TensorRows output[] = {Whole(TensorRole::kOutProj, index)};
  RETURN_IF_ERROR(FitPart(layer, LayerPart::kOutput, output));
  if (!sequential()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const LayerModel found,
                   LayerModel::LoadLayer(found_source_, Numerics::kA8, layer));
  RETURN_IF_ERROR(found_runner_.Advance(found, fit_.found));
  return found_runner_.Advance(found, guard_.found);
}

absl::Status ModelFit::FitPart(size_t layer, LayerPart part, std::span<const TensorRows> tensors) {
  std::optional<LayerModel> found_layer;
  if (sequential()) {
    ASSIGN_OR_RETURN(found_layer, LayerModel::LoadLayer(found_source_, Numerics::kA8, layer));
  }
  const LayerModel* const found = found_layer ? &*found_layer : nullptr;
  ASSIGN_OR_RETURN(const std::optional<InputMetric> input, Measure(layer, found, part));
  ASSIGN_OR_RETURN(const GuardInputs guard, CollectGuard(found, part));
  for (const TensorRows& rows : tensors) {
    RETURN_IF_ERROR(rows_.Fit(rows, input ? &*input : nullptr, &guard));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelFit::DenseMoments> ModelFit::MeasureLayer(const LayerModel* found_layer,
                                                              LayerPart part) {
  const size_t cols = PartColumns(plan_->geometry(), part);
  engine::MomentSum sum(cols, true);
  engine::MomentSum cross(found_layer == nullptr ? 0 : cols, false);
  const std::vector<std::span<Stream>> wanted_batches = Batches(fit_.wanted);
  const std::vector<std::span<Stream>> found_batches = Batches(fit_.found);
  for (size_t i = 0; i < wanted_batches.size(); ++i) {
    Inputs wanted, found;
    TakeKept(part, wanted_batches[i], wanted);
    if (found_layer == nullptr) {
      sum.Add(wanted.x, wanted.x, wanted.weights, pool_);
      continue;
    }
    RETURN_IF_ERROR(found_runner_.Collect(*found_layer, part, found_batches[i], found));
    sum.Add(found.x, found.x, found.weights, pool_);
    cross.Add(wanted.x, found.x, wanted.weights, pool_);
  }
  DenseMoments moments;
  moments.inputs = std::move(sum).Take();
  if (found_layer != nullptr) moments.cross = std::move(cross).Take();
  return moments;
}

absl::StatusOr<std::optional<InputMetric>> ModelFit::Measure(size_t layer,
                                                             const LayerModel* found_layer,
                                                             LayerPart part) {
  const std::string name = absl::StrCat("layer ", layer, ", ", std::string(PartName(part)));
  const std::string cross_name = name + ", cross";
  DenseMoments moments;
  if (reads_stats()) {
    const size_t cols = PartColumns(plan_->geometry(), part);
    ASSIGN_OR_RETURN(moments.inputs, stats_->Find(name, cols, true));
    if (found_layer != nullptr) {
      ASSIGN_OR_RETURN(moments.cross, stats_->Find(cross_name, cols, false));
    }
  } else {
    ASSIGN_OR_RETURN(moments, MeasureLayer(found_layer, part));
    if (stats_ != nullptr) {
      RETURN_IF_ERROR(stats_->Add(name, moments.inputs, true));
      if (moments.cross) RETURN_IF_ERROR(stats_->Add(cross_name, *moments.cross, false));
    }
  }
  std::optional<InputMetric> input =
      MakeInputMetric(moments.inputs, moments.cross ? &*moments.cross : nullptr, kDamping, pool_);
  if (input) WarnOfInputs(part, layer, *input);
  return input;
}

void ModelFit::WarnOfInputs(LayerPart part, size_t layer, const InputMetric& input) {
  const uint64_t cols = PartColumns(plan_->geometry(), part);
  const uint64_t positions = report_.tokens;
  if (positions < kTokensPerInput * cols) {
    report_.AddWarning(absl::StrFormat(
        "few-tokens: %s: %d tokens for %d channels, %.1f a channel, want %d",
        std::string(PartName(part)), positions, cols,
        static_cast<double>(positions) / static_cast<double>(cols), kTokensPerInput));
  }
  if (input.damping_raised > 0) {
    report_.AddWarning(absl::StrFormat("damping: %s of layer %d: raised to %g of the mean moment",
                                       std::string(PartName(part)), layer, input.damping));
  }
  if (input.dead_inputs > 0) {
    auto& [most, layers] = dead_[part];
    most = std::max(most, input.dead_inputs);
    absl::StrAppend(&layers, layers.empty() ? "" : ", ", layer);
  }
  const uint64_t streams = StreamBytes(fit_.wanted) + StreamBytes(fit_.found) +
                           StreamBytes(guard_.wanted) + StreamBytes(guard_.found);
  // Moments, cross moments, factor and three matrices at work.
  report_.peak_bytes = std::max(report_.peak_bytes, streams + 6 * cols * cols * sizeof(double));
}

absl::StatusOr<GuardInputs> ModelFit::CollectGuard(const LayerModel* found_layer, LayerPart part) {
  GuardInputs guard;
  TakeKept(part, guard_.wanted, guard.wanted);
  if (found_layer == nullptr) return guard;
  RETURN_IF_ERROR(found_runner_.Collect(*found_layer, part, guard_.found, guard.found));
  return guard;
}

// Each table has the metric of the columns that read it: M = K^T K / |K|^2 / 4 + V^T V / |V|^2.
absl::Status ModelFit::FitTables(uint32_t site) {
  const TensorRows tables = Whole(TensorRole::kEngramTables, site);
  if (!fits_tables()) {
    rows_.KeepPlain(tables.position);
    return absl::OkStatus();
  }
  const format::Geometry& geometry = plan_->geometry();
  ASSIGN_OR_RETURN(const std::vector<float> key,
                   wanted_source_->Floats({TensorRole::kEngramKeyProj, site}));
  ASSIGN_OR_RETURN(const std::vector<float> value,
                   wanted_source_->Floats({TensorRole::kEngramValueProj, site}));
  const size_t sub = geometry.engram_sub_dim;
  for (uint32_t table = 0; table < geometry.num_engram_tables; ++table) {
    DenseMatrix metric(sub, sub);
    AddNormalized(Columns(key, geometry.EngramWidth(), table * sub, sub), kKeyShare, pool_, metric);
    AddNormalized(Columns(value, geometry.EngramWidth(), table * sub, sub), 1, pool_, metric);
    const auto input = MakeInputMetric(metric, nullptr, kIdentityShare, pool_);
    const TensorRows rows = {tables.position, uint64_t{table} * geometry.engram_slots,
                             geometry.engram_slots, absl::StrCat(tables.name, ", table ", table)};
    RETURN_IF_ERROR(rows_.Fit(rows, input ? &*input : nullptr, nullptr));
  }
  return absl::OkStatus();
}

}  // namespace needle::calibrate
