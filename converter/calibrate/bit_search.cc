#include "converter/calibrate/bit_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "converter/calibrate/calibration_set.h"
#include "converter/calibrate/encoded_tensors.h"
#include "converter/calibrate/self_text.h"
#include "converter/calibrate/width_choice.h"
#include "converter/calibrate/width_keys.h"
#include "converter/verify/plan_weights.h"
#include "engine/model.h"
#include "engine/tokenizer.h"
#include "quant/bit_map.h"

namespace needle::calibrate {
namespace {

using converter::TensorPlan;
using engine::Numerics;
using format::Width;
using PlanPtr = std::shared_ptr<const TensorPlan>;

// Every tensor at every width is a model to measure: with larger models on less text, down to
// kFewestTokens, so that all of it takes an hour or so at full size and not a day.
constexpr uint64_t kSensitivityWork = 125'000'000'000;  // weights times tokens, of one model
constexpr uint64_t kFewestTokens = 1024;

constexpr std::array kWidths = {Width::kBinary, Width::kCq2, Width::kCq3, Width::kCq4};

// One call of SearchWidths.
class Search {
 public:
  Search(std::shared_ptr<const converter::Checkpoint> checkpoint,
         const converter::PlanOptions& plan, const BitSearchOptions& options)
      : checkpoint_(std::move(checkpoint)),
        plan_options_(plan),
        options_(options),
        pool_(base::ResolveThreads(options.calibrate.threads)) {
    if (!options_.calibrate.data) options_.calibrate.data = kSelfText;
  }

  absl::StatusOr<BitSearch> Run();

 private:
  // A scheme as it is measured.
  struct Candidate {
    PlanPtr plan;
    Calibration calibration;
    SchemeMeasure measure;
  };

  absl::StatusOr<PlanPtr> MakePlan(const quant::BitMap& map) const;
  absl::Status MakePlans();
  absl::Status SetBudget();
  // Every how many examples of so many tokens sensitivities are measured with.
  size_t SensitivityStep(uint64_t tokens) const;
  absl::Status ReadText();
  absl::StatusOr<engine::Model> Load(std::shared_ptr<const engine::WeightSource> source,
                                     Numerics numerics) const;
  absl::Status MeasureKeys();
  absl::Status MeasureWidth(size_t number);
  absl::StatusOr<double> MeasureKey(size_t key, const PlanPtr& plan,
                                    const EncodedTensors& encoded) const;
  absl::StatusOr<std::string> ChooseMap();
  // The maps to measure, with their names: the one that was found, then those it must beat.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Schemes();
  absl::StatusOr<Candidate> MeasureScheme(const std::string& name, const std::string& map);
  absl::Status Tell(std::string_view phase, size_t done, size_t total) const;
  double Bits(std::span<const Width> widths) const;
  // Whether a plan keeps to the target.
  bool Fits(const TensorPlan& plan) const;

  std::shared_ptr<const converter::Checkpoint> checkpoint_;
  converter::PlanOptions plan_options_;
  BitSearchOptions options_;
  base::ThreadPool pool_;

  std::vector<PlanPtr> uniform_;  // by number in kWidths
  std::vector<WidthKey> keys_;
  uint64_t budget_ = 0;  // for the keys, in the bytes of WidthSensitivity
  size_t num_guard_ = 0;
  size_t sensitivity_step_ = 1;
  std::optional<KlMeter> meter_;
  BitSearchReport report_;
};

absl::Status Search::Tell(std::string_view phase, size_t done, size_t total) const {
  const auto& progress = options_.calibrate.progress;
  if (!progress || progress({phase, done, total})) return absl::OkStatus();
  return absl::CancelledError("the search for widths was stopped");
}

absl::StatusOr<PlanPtr> Search::MakePlan(const quant::BitMap& map) const {
  converter::PlanOptions options = plan_options_;
  options.bit_map = map;
  ASSIGN_OR_RETURN(TensorPlan plan, TensorPlan::Make(checkpoint_, options));
  return std::make_shared<const TensorPlan>(std::move(plan));
}

absl::Status Search::MakePlans() {
  for (const Width width : kWidths) {
    ASSIGN_OR_RETURN(PlanPtr plan, MakePlan(quant::BitMap::Uniform(width)));
    uniform_.push_back(std::move(plan));
  }
  keys_ = WidthKeys(*uniform_[0]);
  for (const WidthKey& key : keys_) {
    KeySensitivity& row = report_.keys.emplace_back(KeySensitivity{.key = key.key});
    for (const Width width : kWidths) {
      ASSIGN_OR_RETURN(const uint64_t file_bytes, FileBytes(*uniform_[0], key, width));
      const uint64_t bytes = options_.target_bytes ? file_bytes : IndexBytes(key, width);
      row.widths.push_back({.width = width, .bytes = bytes});
    }
  }
  return absl::OkStatus();
}

// Sizes add up: whatever follows the last matrix (final_norm, at least) ends the file, so every gap
// behind a matrix is there for every map.
absl::Status Search::SetBudget() {
  const auto& [target_bytes, target_bits] = std::pair(options_.target_bytes, options_.target_bits);
  if (target_bytes.has_value() == target_bits.has_value()) {
    return absl::InvalidArgumentError("want a target size or a target of bits, one of the two");
  }
  uint64_t narrowest = 0;
  uint64_t weights = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    narrowest += report_.keys[i].widths[0].bytes;
    weights += keys_[i].padded_weights;
  }
  if (target_bits) {
    if (std::isfinite(*target_bits) && *target_bits >= 1) {
      const double bits = std::min(*target_bits, 4.0);
      budget_ = static_cast<uint64_t>(bits * static_cast<double>(weights) / 8);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("a target of %g bits, want at least 1", *target_bits));
  }
  const uint64_t smallest = uniform_[0]->layout().file_bytes;
  if (*target_bytes < smallest) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: a target of %d bytes, but the smallest archive (default=1) has %d",
                        checkpoint_->path(), *target_bytes, smallest));
  }
  budget_ = *target_bytes - (smallest - narrowest);
  return absl::OkStatus();
}

size_t Search::SensitivityStep(uint64_t tokens) const {
  uint64_t weights = 1;
  for (const WidthKey& key : keys_) weights += key.padded_weights;
  const uint64_t affordable = std::max(kFewestTokens, kSensitivityWork / weights);
  return std::max<uint64_t>(1, (tokens + affordable - 1) / affordable);
}

absl::Status Search::ReadText() {
  const CalibrateOptions& calibrate = options_.calibrate;
  const auto source = std::make_shared<verify::PlanWeights>(uniform_[0]);
  ASSIGN_OR_RETURN(const engine::Tokenizer tokenizer, engine::Tokenizer::FromSource(*source));
  const SetLimits limits = {calibrate.max_tokens, calibrate.max_example_tokens};
  CalibrationSet set;
  if (*calibrate.data == kSelfText) {
    ASSIGN_OR_RETURN(set, WriteSelfText(source, tokenizer,
                                        {.limits = limits,
                                         .seed = calibrate.seed,
                                         .threads = pool_.num_threads(),
                                         .progress = {}}));
  } else {
    ASSIGN_OR_RETURN(
        set, ReadCalibrationSet(*calibrate.data, tokenizer, uniform_[0]->geometry(), limits));
  }
  report_.data = set.name;
  std::vector<Example> examples = std::move(set.guard);
  num_guard_ = examples.size();
  // Every so many of the fit part that they fill what is left of the tokens.
  const uint64_t used = CountTokens(examples);
  const uint64_t left = options_.measure_tokens - std::min<uint64_t>(used, options_.measure_tokens);
  const size_t step =
      left == 0 ? set.fit.size() : static_cast<size_t>((CountTokens(set.fit) + left - 1) / left);
  if (left > 0 || examples.empty()) {
    for (size_t i = 0; i < set.fit.size(); i += std::max<size_t>(step, 1)) {
      examples.push_back(std::move(set.fit[i]));
    }
  }
  report_.examples = examples.size();
  report_.guard_examples = num_guard_;
  report_.tokens = CountTokens(examples);
  sensitivity_step_ = SensitivityStep(report_.tokens);
  report_.sensitivity_examples = (examples.size() + sensitivity_step_ - 1) / sensitivity_step_;
  ASSIGN_OR_RETURN(const engine::Model reference, Load(source, Numerics::kFloat));
  ASSIGN_OR_RETURN(meter_, KlMeter::Make(reference, std::move(examples), pool_));
  return absl::OkStatus();
}

absl::StatusOr<engine::Model> Search::Load(std::shared_ptr<const engine::WeightSource> source,
                                           Numerics numerics) const {
  return engine::Model::Load(std::move(source), {.numerics = numerics, .threads = 1});
}

// Every tensor by itself: fitted to the float model's inputs, since no other tensor is quantised.
absl::Status Search::MeasureWidth(size_t number) {
  CalibrateOptions calibrate = options_.calibrate;
  calibrate.steps.sequential = false;
  calibrate.guard = false;
  ASSIGN_OR_RETURN(const Calibration calibration, Calibrate(uniform_[number], calibrate));
  for (size_t key = 0; key < keys_.size(); ++key) {
    RETURN_IF_ERROR(
        Tell("sensitivity", number * keys_.size() + key, kWidths.size() * keys_.size()));
    ASSIGN_OR_RETURN(report_.keys[key].widths[number].kl,
                     MeasureKey(key, uniform_[number], calibration.encoder->tensors()));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Search::MeasureKey(size_t key, const PlanPtr& plan,
                                          const EncodedTensors& encoded) const {
  const size_t position = keys_[key].position;
  auto alone = std::make_shared<EncodedTensors>(encoded.size());
  (*alone)[position] = encoded[position];
  ASSIGN_OR_RETURN(const engine::Model model,
                   Load(std::make_shared<EncodedWeights>(plan, alone), Numerics::kFloat));
  ASSIGN_OR_RETURN(const ExampleScores scores, meter_->Measure(model, sensitivity_step_));
  return SumUp(scores).kl_mean;
}

absl::Status Search::MeasureKeys() {
  for (size_t number = 0; number < kWidths.size(); ++number) {
    RETURN_IF_ERROR(MeasureWidth(number));
  }
  for (KeySensitivity& key : report_.keys) {
    std::vector<double> kl;
    for (const WidthSensitivity& width : key.widths) kl.push_back(std::max(width.kl, 0.0));
    const std::vector<double> cost = NeverRising(kl);
    for (size_t i = 0; i < kl.size(); ++i) key.widths[i].cost = cost[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Search::ChooseMap() {
  std::vector<std::vector<WidthOption>> options;
  for (const KeySensitivity& key : report_.keys) {
    auto& row = options.emplace_back();
    for (const WidthSensitivity& width : key.widths) row.push_back({width.bytes, width.cost});
  }
  const auto chosen = ChooseOptions(options, budget_);
  if (!chosen) return absl::InternalError("no widths fit a target that was checked");
  std::vector<Width> widths;
  for (size_t i = 0; i < keys_.size(); ++i) {
    report_.keys[i].chosen = kWidths[(*chosen)[i]];
    widths.push_back(report_.keys[i].chosen);
  }
  return MapText(*uniform_[0], keys_, widths);
}

double Search::Bits(std::span<const Width> widths) const {
  uint64_t bytes = 0;
  uint64_t weights = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    bytes += IndexBytes(keys_[i], widths[i]);
    weights += keys_[i].padded_weights;
  }
  return 8 * static_cast<double>(bytes) / static_cast<double>(weights);
}

bool Search::Fits(const TensorPlan& plan) const {
  if (options_.target_bytes) return plan.layout().file_bytes <= *options_.target_bytes;
  return Bits(WidthsOf(plan, keys_)) <= *options_.target_bits;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Search::Schemes() {
  ASSIGN_OR_RETURN(const std::string found, ChooseMap());
  std::vector<std::pair<std::string, std::string>> schemes = {{"found", found}};
  const auto widest = std::find_if(uniform_.rbegin(), uniform_.rend(),
                                   [&](const PlanPtr& plan) { return Fits(*plan); });
  if (widest != uniform_.rend()) {
    const Width width = kWidths[static_cast<size_t>(uniform_.rend() - widest) - 1];
    schemes.emplace_back("uniform", quant::BitMap::Uniform(width).Text());
  }
  ASSIGN_OR_RETURN(const quant::BitMap shipped, quant::BitMap::Parse(quant::kShippedScheme));
  ASSIGN_OR_RETURN(const PlanPtr plan, MakePlan(shipped));
  if (Fits(*plan)) schemes.emplace_back("default scheme", quant::kShippedScheme);
  // What was found may be one of the others.
  const auto same = [&](const auto& scheme) { return scheme.second == found; };
  schemes.erase(std::remove_if(schemes.begin() + 1, schemes.end(), same), schemes.end());
  return schemes;
}

absl::StatusOr<Search::Candidate> Search::MeasureScheme(const std::string& name,
                                                        const std::string& map) {
  ASSIGN_OR_RETURN(const quant::BitMap bit_map, quant::BitMap::Parse(map));
  Candidate result;
  ASSIGN_OR_RETURN(result.plan, MakePlan(bit_map));
  ASSIGN_OR_RETURN(result.calibration, Calibrate(result.plan, options_.calibrate));
  const std::vector<Width> widths = WidthsOf(*result.plan, keys_);
  result.measure = {.name = name,
                    .bit_map = map,
                    .file_bytes = result.plan->layout().file_bytes,
                    .bits = Bits(widths)};
  for (size_t i = 0; i < keys_.size(); ++i) {
    for (const WidthSensitivity& width : report_.keys[i].widths) {
      if (width.width == widths[i]) result.measure.predicted += width.cost;
    }
  }
  const auto tensors =
      std::make_shared<const EncodedTensors>(result.calibration.encoder->tensors());
  ASSIGN_OR_RETURN(const engine::Model model,
                   Load(std::make_shared<EncodedWeights>(result.plan, tensors), Numerics::kA8));
  ASSIGN_OR_RETURN(const ExampleScores scores, meter_->Measure(model));
  result.measure.all = SumUp(scores);
  result.measure.guard = SumUp(std::span(scores).first(num_guard_));
  return result;
}

// Better: less KL, then fewer bytes; the earlier one otherwise.
bool IsBetter(const SchemeMeasure& a, const SchemeMeasure& b) {
  if (a.all.kl_mean != b.all.kl_mean) return a.all.kl_mean < b.all.kl_mean;
  return a.file_bytes < b.file_bytes;
}

absl::StatusOr<BitSearch> Search::Run() {
  if (options_.calibrate.stats) {
    return absl::InvalidArgumentError(
        "a statistics file cannot be used while widths are searched: moments depend on them");
  }
  RETURN_IF_ERROR(MakePlans());
  RETURN_IF_ERROR(SetBudget());
  RETURN_IF_ERROR(ReadText());
  RETURN_IF_ERROR(MeasureKeys());
  ASSIGN_OR_RETURN(const auto schemes, Schemes());
  BitSearch result;
  for (size_t i = 0; i < schemes.size(); ++i) {
    RETURN_IF_ERROR(Tell("schemes", i, schemes.size()));
    ASSIGN_OR_RETURN(Candidate candidate, MeasureScheme(schemes[i].first, schemes[i].second));
    report_.schemes.push_back(candidate.measure);
    if (i > 0 && !IsBetter(candidate.measure, report_.schemes[report_.chosen])) continue;
    report_.chosen = i;
    result.plan = std::move(candidate.plan);
    result.calibration = std::move(candidate.calibration);
  }
  result.report = std::move(report_);
  return result;
}

}  // namespace

absl::StatusOr<BitSearch> SearchWidths(std::shared_ptr<const converter::Checkpoint> checkpoint,
                                       const converter::PlanOptions& plan,
                                       const BitSearchOptions& options) {
  const bool without_text = !options.calibrate.data;
  ASSIGN_OR_RETURN(BitSearch result, Search(std::move(checkpoint), plan, options).Run());
  if (without_text) {
    result.report.warnings.push_back(
        "self-text: no text was given; widths were measured with text that the model wrote");
  }
  if (result.report.chosen != 0) {
    result.report.warnings.push_back(absl::StrFormat(
        "map-not-better: the map that was found, %s, is not better than %s, which is kept",
        result.report.schemes[0].bit_map, result.report.schemes[result.report.chosen].bit_map));
  }
  return result;
}

}  // namespace needle::calibrate
