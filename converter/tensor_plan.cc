#include "converter/tensor_plan.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "converter/adapter.h"
#include "converter/leaf_map.h"
#include "converter/leaf_view.h"
#include "converter/tokenizer_source.h"
#include "format/hada_permutation.h"
#include "format/kv_window.h"

namespace needle::converter {
namespace {

using format::Generation;
using format::HeadKind;
using format::HeadShape;
using format::TensorRole;
using format::TensorSpec;

// In the order of the manifest.
std::vector<HeadKind> HeadKinds(Generation generation) {
  if (generation == Generation::kNeedle2) return {HeadKind::kContrastive, HeadKind::kConfidence};
  return {HeadKind::kEmbedding, HeadKind::kConfidence, HeadKind::kRouter};
}

bool TreeHasHead(const Checkpoint& checkpoint, HeadKind kind) {
  constexpr TensorRole kRoles[] = {TensorRole::kHeadProbes,     TensorRole::kHeadGain,
                                   TensorRole::kHeadQuery,      TensorRole::kHeadRowBias,
                                   TensorRole::kHeadProj,       TensorRole::kHeadBias,
                                   TensorRole::kHeadCalibration};
  return std::any_of(std::begin(kRoles), std::end(kRoles), [&](TensorRole role) {
    return checkpoint.Find(HeadLeafPath(kind, role)).has_value();
  });
}

// The heads that the tree has, shaped as the config says; Needle 2's number of probes is its
// leaf's.
std::vector<HeadShape> HeadsOfTree(const Checkpoint& checkpoint, const ModelConfig& config) {
  std::vector<HeadShape> heads;
  for (const HeadKind kind : HeadKinds(config.geometry.generation)) {
    if (!TreeHasHead(checkpoint, kind)) continue;
    HeadShape head = config.heads[static_cast<size_t>(kind)];
    const auto probes = checkpoint.Find(HeadLeafPath(kind, TensorRole::kHeadProbes));
    if (head.probes == 0 && probes && !checkpoint.leaves()[*probes].shape.empty()) {
      head.probes = static_cast<uint32_t>(
          std::min<uint64_t>(checkpoint.leaves()[*probes].shape[0], UINT32_MAX));
    }
    head.probes = std::max(head.probes, 1U);
    heads.push_back(head);
  }
  return heads;
}

// Paths that a build of the whole model binds.
absl::StatusOr<std::set<std::string>> KnownPaths(const ModelConfig& config,
                                                 const std::vector<HeadShape>& heads) {
  const format::Geometry& full = config.geometry;
  ASSIGN_OR_RETURN(const auto schema, format::Schema::Make(full, heads, false));
  ASSIGN_OR_RETURN(const auto all, format::LayerSelection::Make(full, full.num_layers, {}));
  std::set<std::string> paths;
  for (const TensorSpec& spec : schema.tensors()) {
    if (const auto binding = BindLeaf(full, all, heads, spec)) paths.insert(binding->path);
  }
  return paths;
}

absl::Status CheckUnboundLeaves(const Checkpoint& checkpoint, const std::set<std::string>& known,
                                bool strict, std::vector<std::string>& warnings) {
  std::vector<std::string> unknown;
  for (const Leaf& leaf : checkpoint.leaves()) {
    if (known.contains(leaf.name)) continue;
    switch (UseOfUnboundLeaf(leaf.name)) {
      case LeafUse::kScales:
        return absl::UnimplementedError(
            absl::StrFormat("%s: leaf \"%s\": training-time scales (ab_scales), which no archive "
                            "can hold",
                            checkpoint.path(), leaf.name));
      case LeafUse::kSpeech:
        return absl::UnimplementedError(
            absl::StrFormat("%s: leaf \"%s\" is a speech model's (Whistle), which is not supported",
                            checkpoint.path(), leaf.name));
      case LeafUse::kTrainingOnly:
        break;
      case LeafUse::kUnknown:
        unknown.push_back(absl::StrFormat("unknown leaf \"%s\" %s %s is ignored", leaf.name,
                                          leaf.type_name, LeafShapeText(leaf.shape)));
    }
  }
  if (strict && !unknown.empty()) {
    return absl::DataLossError(
        absl::StrFormat("%s: %s", checkpoint.path(), absl::StrJoin(unknown, "; ")));
  }
  warnings.insert(warnings.end(), unknown.begin(), unknown.end());
  return absl::OkStatus();
}

std::vector<float> HeadCodes(Generation generation, const std::vector<HeadShape>& heads) {
  std::vector<float> codes;
  for (const HeadShape& head : heads) {
    codes.push_back(static_cast<float>(format::HeadCode(generation, head.kind)));
  }
  return codes;
}

std::vector<float> PermutationValues(uint32_t n, uint32_t seed, bool split_halves) {
  const std::vector<uint32_t> order = format::HadaPermutation(n, seed, split_halves);
  return {order.begin(), order.end()};
}

// What is wrong with the leaf of `binding`, or nothing.
std::optional<std::string> LeafFault(const Checkpoint& checkpoint, const LeafBinding& binding) {
  const auto index = checkpoint.Find(binding.path);
  const std::string want = LeafShapeText(binding.shape);
  if (!index) return absl::StrFormat("leaf \"%s\" is missing, want %s", binding.path, want);
  const Leaf& leaf = checkpoint.leaves()[*index];
  if (!leaf.type) {
    return absl::StrFormat("leaf \"%s\" is of type %s, want a floating-point one", binding.path,
                           leaf.type_name);
  }
  if (leaf.shape == binding.shape) return std::nullopt;
  return absl::StrFormat("leaf \"%s\" is %s, want %s", binding.path, LeafShapeText(leaf.shape),
                         want);
}

}  // namespace

// Outside the anonymous namespace, since TensorPlan::State has members of these types.

// What an adapter does to a leaf.
struct Merge {
  const LoraPair* pair;
  float scale;
};

struct LeafSource {
  size_t leaf;
  LeafView view;
  std::vector<Merge> merges;
};

// Where the values of a tensor come from: a leaf, or constants. RAW has no values.
using Source = std::variant<std::vector<float>, LeafSource>;

namespace {

void ReadMergedRow(const LeafSource& source, const LeafData& data, uint64_t row,
                   std::span<float> values) {
  const quant::SourceType type = source.view.type();
  const std::vector<LeafView::Place> places = source.view.Places(data, row);
  for (size_t col = 0; col < values.size(); ++col) {
    double value = LeafValue(type, data.bytes.subspan(places[col].byte).data());
    for (const Merge& merge : source.merges) {
      value = MergedValue(type, value, merge.pair->Product(places[col].index), merge.scale);
    }
    values[col] = static_cast<float>(value);
  }
}

std::string SiblingTokenizer(const std::string& checkpoint_path) {
  const std::filesystem::path sibling =
      std::filesystem::path(checkpoint_path).parent_path() / "tokenizer.model";
  std::error_code error;
  return std::filesystem::exists(sibling, error) ? sibling.string() : std::string();
}

}  // namespace

struct TensorPlan::State {
  std::shared_ptr<const Checkpoint> checkpoint;
  ModelConfig config;
  std::vector<Adapter> adapters;
  format::LayerSelection selection;
  format::ArchiveLayout layout;
  std::vector<format::Width> widths;
  std::vector<Source> sources;
  std::vector<std::string> warnings;
  std::string tokenizer_path;
  std::vector<uint8_t> tokenizer;
  std::vector<InputBalance> balances;

  absl::Status LoadAdapters(const PlanOptions& options, const std::set<std::string>& known);
  absl::Status LoadTokenizer(const PlanOptions& options);
  absl::Status Bind(const std::vector<HeadShape>& heads, bool has_tokenizer);
  absl::Status CheckLeaves(const std::vector<HeadShape>& heads) const;
  Source SourceOf(const TensorSpec& spec, const std::vector<HeadShape>& heads) const;
  std::vector<Merge> MergesOf(const std::string& path) const;
  // As the checkpoint and its adapters have them.
  absl::Status ReadSource(const Source& source, uint64_t first, uint64_t count,
                          std::span<float> values) const;
};

absl::Status TensorPlan::State::LoadAdapters(const PlanOptions& options,
                                             const std::set<std::string>& known) {
  for (const std::string& path : options.adapters) {
    ASSIGN_OR_RETURN(Adapter adapter, Adapter::Open(path));
    RETURN_IF_ERROR(adapter.CheckAgainst(checkpoint->leaves()));
    std::vector<std::string> idle;
    for (const LoraPair& pair : adapter.pairs()) {
      if (!known.contains(pair.path)) idle.push_back(pair.path);
    }
    if (idle.size() == adapter.pairs().size()) {
      return absl::DataLossError(absl::StrFormat("%s: changes nothing: no archive holds %s", path,
                                                 absl::StrJoin(idle, ", ")));
    }
    for (const std::string& leaf : idle) {
      warnings.push_back(
          absl::StrFormat("%s: no archive holds \"%s\", its factors are ignored", path, leaf));
    }
    if (std::count(options.adapters.begin(), options.adapters.end(), path) > 1) {
      warnings.push_back(absl::StrCat(path, ": merged more than once"));
    }
    adapters.push_back(std::move(adapter));
  }
  return absl::OkStatus();
}

absl::Status TensorPlan::State::LoadTokenizer(const PlanOptions& options) {
  tokenizer_path = options.tokenizer.value_or(SiblingTokenizer(checkpoint->path()));
  if (tokenizer_path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(tokenizer, converter::LoadTokenizer(tokenizer_path, config.geometry.generation,
                                                       config.geometry.vocab));
  return absl::OkStatus();
}

std::vector<Merge> TensorPlan::State::MergesOf(const std::string& path) const {
  std::vector<Merge> merges;
  for (const Adapter& adapter : adapters) {
    if (const LoraPair* pair = adapter.Find(path)) merges.push_back({pair, adapter.scale()});
  }
  return merges;
}

// All faults of the tree's leaves are found before any constant is made, whose size comes from the
// config: leaves of that size are then there.
absl::Status TensorPlan::State::CheckLeaves(const std::vector<HeadShape>& heads) const {
  std::vector<std::string> faults;
  for (const TensorSpec& spec : layout.schema.tensors()) {
    const auto binding = BindLeaf(config.geometry, selection, heads, spec);
    if (!binding || (MayBeMissing(spec.id.role) && !checkpoint->Find(binding->path))) continue;
    auto fault = LeafFault(*checkpoint, *binding);
    if (fault && std::find(faults.begin(), faults.end(), *fault) == faults.end()) {
      faults.push_back(*std::move(fault));
    }
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("%s: the tree does not fit its config:\n  %s",
                                             checkpoint->path(), absl::StrJoin(faults, "\n  ")));
}

Source TensorPlan::State::SourceOf(const TensorSpec& spec,
                                   const std::vector<HeadShape>& heads) const {
  switch (spec.id.role) {
    case TensorRole::kHadaP1:
      return PermutationValues(config.geometry.hada_n, format::kHadaP1Seed,
                               config.split_permutations);
    case TensorRole::kHadaP2:
      return PermutationValues(config.geometry.hada_n, format::kHadaP2Seed,
                               config.split_permutations);
    case TensorRole::kHeadsManifest:
      return HeadCodes(config.geometry.generation, heads);
    default:
      break;
  }
  const auto binding = BindLeaf(config.geometry, selection, heads, spec);
  if (!binding) return {};
  const auto leaf = checkpoint->Find(binding->path);
  if (!leaf) return DefaultValues(spec);
  return LeafSource{*leaf, LeafView(checkpoint->leaves()[*leaf], *binding),
                    MergesOf(binding->path)};
}

absl::Status TensorPlan::State::Bind(const std::vector<HeadShape>& heads, bool has_tokenizer) {
  ASSIGN_OR_RETURN(layout.schema, format::Schema::Make(selection.geometry, heads, has_tokenizer));
  RETURN_IF_ERROR(CheckLeaves(heads));
  for (const TensorSpec& spec : layout.schema.tensors()) sources.push_back(SourceOf(spec, heads));
  return absl::OkStatus();
}

absl::Status TensorPlan::State::ReadSource(const Source& source, uint64_t first, uint64_t count,
                                           std::span<float> values) const {
  if (const auto* constant = std::get_if<std::vector<float>>(&source)) {
    std::copy(constant->begin(), constant->end(), values.begin());
    return absl::OkStatus();
  }
  const auto& leaf = std::get<LeafSource>(source);
  ASSIGN_OR_RETURN(const LeafData data, checkpoint->Data(leaf.leaf));
  if (leaf.merges.empty()) {
    leaf.view.Read(data, first, count, values);
    return absl::OkStatus();
  }
  const uint64_t cols = count == 0 ? 0 : values.size() / count;
  for (uint64_t i = 0; i < count; ++i) {
    ReadMergedRow(leaf, data, first + i, values.subspan(i * cols, cols));
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorPlan> TensorPlan::Make(std::shared_ptr<const Checkpoint> checkpoint,
                                            const PlanOptions& options) {
  auto state = std::make_unique<State>();
  state->checkpoint = std::move(checkpoint);
  auto config = ModelConfig::FromJson(state->checkpoint->config());
  if (!config.ok()) return base::WithContext(config.status(), state->checkpoint->path());
  state->config = *std::move(config);
  const format::Geometry& full = state->config.geometry;

  std::vector<HeadShape> heads = HeadsOfTree(*state->checkpoint, state->config);
  ASSIGN_OR_RETURN(const auto known, KnownPaths(state->config, heads));
  RETURN_IF_ERROR(CheckUnboundLeaves(*state->checkpoint, known, options.strict, state->warnings));
  RETURN_IF_ERROR(state->LoadAdapters(options, known));
  if (!options.adapters.empty() && !options.keep_confidence) {
    std::erase_if(heads, [](const HeadShape& head) { return head.kind == HeadKind::kConfidence; });
  }

  const uint32_t depth = options.layers == 0 ? full.num_layers : options.layers;
  ASSIGN_OR_RETURN(state->selection,
                   format::LayerSelection::Make(full, depth, state->config.ladder_order));
  format::Geometry geometry = state->selection.geometry;
  geometry.kv_window = format::EffectiveKvWindow(geometry, state->config.kv_window);
  state->selection.geometry = geometry;

  RETURN_IF_ERROR(state->LoadTokenizer(options));
  RETURN_IF_ERROR(state->Bind(heads, !state->tokenizer.empty()));
  const format::Schema schema = state->layout.schema;
  const quant::InputNumbers numbers{.layers = state->selection.layers,
                                    .sites = state->selection.sites,
                                    .num_layers = full.num_layers,
                                    .num_sites = static_cast<uint32_t>(full.engram_sites.size())};
  ASSIGN_OR_RETURN(state->widths, options.bit_map.Resolve(schema, numbers));
  ASSIGN_OR_RETURN(state->layout, format::ArchiveLayout::Make(geometry, schema, state->widths,
                                                              state->tokenizer.size()));
  TensorPlan plan(std::move(state));
  if (options.rebalance) {
    ASSIGN_OR_RETURN(plan.state_->balances, BalanceInputs(plan, plan.schema()));
  }
  return plan;
}

TensorPlan::TensorPlan(std::unique_ptr<State> state) : state_(std::move(state)) {}
TensorPlan::TensorPlan(TensorPlan&&) noexcept = default;
TensorPlan& TensorPlan::operator=(TensorPlan&&) noexcept = default;
TensorPlan::~TensorPlan() = default;

const Checkpoint& TensorPlan::checkpoint() const { return *state_->checkpoint; }
const ModelConfig& TensorPlan::config() const { return state_->config; }
const format::ArchiveLayout& TensorPlan::layout() const { return state_->layout; }
std::span<const format::Width> TensorPlan::widths() const { return state_->widths; }
const format::LayerSelection& TensorPlan::selection() const { return state_->selection; }
const std::vector<std::string>& TensorPlan::warnings() const { return state_->warnings; }
std::span<const uint8_t> TensorPlan::tokenizer() const { return state_->tokenizer; }
const std::string& TensorPlan::tokenizer_path() const { return state_->tokenizer_path; }
std::span<const InputBalance> TensorPlan::balances() const { return state_->balances; }

std::vector<std::string> TensorPlan::files() const {
  std::vector<std::string> files = state_->checkpoint->files();
  for (const Adapter& adapter : state_->adapters) files.push_back(adapter.path());
  if (!state_->tokenizer_path.empty()) files.push_back(state_->tokenizer_path);
  return files;
}

absl::Status TensorPlan::ReadRows(size_t position, uint64_t first, uint64_t count,
                                  std::span<float> values) const {
  if (position >= state_->sources.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("position %d, the plan has %d tensors", position, state_->sources.size()));
  }
  const TensorSpec& spec = schema().tensors()[position];
  const uint64_t rows = TensorRows(spec);
  if (first > rows || count > rows - first || values.size() != count * TensorCols(spec)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: rows %d to %d into %d values, it is %s", spec.name, first,
                        first + count, values.size(), format::ShapeText(spec.shape)));
  }
  RETURN_IF_ERROR(state_->ReadSource(state_->sources[position], first, count, values));
  if (!state_->balances.empty()) ApplyBalance(state_->balances, spec.id, values);
  return absl::OkStatus();
}

}  // namespace needle::converter
