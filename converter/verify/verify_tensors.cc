#include "converter/verify/verify_tensors.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "converter/verify/cq_check.h"
#include "converter/verify/exact_check.h"
#include "converter/verify/geometry_differences.h"
#include "converter/verify/tensor_work.h"
#include "quant/encode.h"

namespace needle::verify {
namespace {

using format::DType;
using format::TensorSpec;

// Limits where none are given, see TensorLimits.
constexpr double kTensorRatio = 4;
constexpr double kGroupNmse = 2;
constexpr double kGroupOverTensor = 20;
constexpr double kMostGroupNmse = 64;
constexpr double kNormCorrelation = 0.3;
// With any ratio: an archive that decodes to zeros has an error of 1.
constexpr double kMostTensorNmse = 0.95;

// A tensor as it is read by some worker: what stays the same over its ranges.
struct Worker {
  std::optional<size_t> position;
  std::optional<quant::Codebook> codebook;
  std::unique_ptr<CqRowCheck> cq;
  std::vector<float> weights;
};

// What one range gave; of one of the two kinds.
struct RangeResult {
  CqTally cq;
  ExactTally exact;
};

class SourceCheck {
 public:
  SourceCheck(const format::Archive& archive, const converter::TensorSource& source,
              const TensorsOptions& options)
      : archive_(archive), source_(source), options_(options) {}

  absl::Status CheckRange(const RowRange& range, Worker& worker, RangeResult& result) const {
    worker.weights.resize(range.NumValues());
    absl::Status status =
        source_.ReadRows(range.position, range.first_row, range.num_rows, worker.weights);
    if (status.ok()) status = CheckRows(range, worker, result);
    return base::WithContext(status, archive_.schema().tensors()[range.position].name);
  }

 private:
  absl::Status CheckRows(const RowRange& range, Worker& worker, RangeResult& result) const {
    if (archive_.schema().tensors()[range.position].dtype != DType::kCq) {
      CheckExact(archive_, range, worker.weights, result.exact);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Prepare(range.position, worker));
    if (options_.encoder != nullptr) {
      return worker.cq->CheckChosen(*options_.encoder, range, worker.weights, result.cq);
    }
    // A limit on groups needs to see each of them.
    if (!options_.locate_worst && !options_.limits.max_group_nmse) {
      ASSIGN_OR_RETURN(const bool is_plain, worker.cq->AddIfPlain(worker.weights, range.first_row,
                                                                  range.num_rows, result.cq));
      if (is_plain) return absl::OkStatus();
    }
    for (uint64_t i = 0; i < range.num_rows; ++i) {
      const auto row = std::span<const float>(worker.weights).subspan(i * range.cols, range.cols);
      RETURN_IF_ERROR(worker.cq->Check(row, range.first_row + i, result.cq));
    }
    return absl::OkStatus();
  }

  absl::Status Prepare(size_t position, Worker& worker) const {
    if (worker.position == position) return absl::OkStatus();
    const format::CqView view = archive_.Cq(position);
    ASSIGN_OR_RETURN(worker.codebook, quant::CodebookFor(view));
    worker.cq = std::make_unique<CqRowCheck>(view, *worker.codebook,
                                             options_.limits.max_group_nmse.value_or(kGroupNmse));
    worker.position = position;
    return absl::OkStatus();
  }

  const format::Archive& archive_;
  const converter::TensorSource& source_;
  const TensorsOptions& options_;
};

// Whether a tensor with these groups is held to plain rounding.
bool IsHeldToPlain(const CqTally& tally, format::Width width, Rounding rounding) {
  if (rounding != Rounding::kAuto) return rounding == Rounding::kPlain;
  if (4 * (tally.groups - tally.other_groups) >= tally.groups) return true;
  return width != format::Width::kBinary && 2 * tally.other_norms >= tally.groups;
}

constexpr uint64_t kLeastGroupsForCorrelation = 256;
// Where more of the weights' squares is lost, as error feedback does at one bit (0.57 and more on
// the trained model where norms stop following), norms fit what feedback made of the weights. Half
// as much again as plain rounding to one bit loses.
constexpr double kMostNmseForCorrelation = 0.55;

double LeastNormCorrelation(const CqTally& tally, const TensorLimits& limits) {
  const double deviation = 1 / std::sqrt(static_cast<double>(tally.norms.count));
  return limits.min_norm_correlation.value_or(std::min(kNormCorrelation, 5 * deviation));
}

// Counts the groups that are too far off, and names the first few.
void ApplyGroupLimit(const CqTally& tally, double most, TensorCheck& check) {
  for (const WorstGroup& far : tally.far_groups) {
    if (far.nmse <= most) continue;
    if (check.bad_groups++ >= kListedFailures) continue;
    check.failures.push_back(
        absl::StrFormat("%s: row %d, group %d: error %.4g of the weights' squares, want at most %g",
                        check.name, far.row, far.group, far.nmse, most));
  }
}

std::string WorstText(const TensorCheck& check) {
  return absl::StrFormat("; the worst is row %d, group %d", check.worst.row, check.worst.group);
}

std::string TensorLimitText(const TensorCheck& check, double most) {
  return absl::StrFormat(
      "%s: error %.4g of the weights' squares, want at most %.4g (the width's theory is %.4g)",
      check.name, check.nmse, most, check.theory);
}

// The limits that were given, which hold for a matrix however it was rounded.
void ApplyGivenLimits(const CqTally& tally, const TensorLimits& limits, TensorCheck& check) {
  if (limits.max_group_nmse) ApplyGroupLimit(tally, *limits.max_group_nmse, check);
  if (limits.max_tensor_ratio) {
    const double most = std::min(*limits.max_tensor_ratio * check.theory, kMostTensorNmse);
    if (!(check.nmse <= most))
      check.failures.push_back(absl::StrCat(TensorLimitText(check, most), WorstText(check)));
  }
}

// The limits where none are given, for a tensor that is not held to plain rounding. Returns whether
// it is a corrected one.
bool ApplyDefaultLimits(const CqTally& tally, const TensorLimits& limits, TensorCheck& check) {
  if (!limits.max_group_nmse) {
    const double most =
        std::min(std::max(kGroupNmse, kGroupOverTensor * check.nmse), kMostGroupNmse);
    ApplyGroupLimit(tally, most, check);
  }
  const double most = std::min(kTensorRatio * check.theory, kMostTensorNmse);
  if (limits.max_tensor_ratio || check.nmse <= most) return false;
  const double cosine = tally.direction.Value();
  if (cosine >= limits.min_cosine) return true;
  check.failures.push_back(
      absl::StrFormat("%s or a cosine to the weights of at least %g, which is %.3f%s",
                      TensorLimitText(check, most), limits.min_cosine, cosine, WorstText(check)));
  return false;
}

void ApplyNormCorrelation(const CqTally& tally, const TensorLimits& limits, TensorCheck& check) {
  const double least = LeastNormCorrelation(tally, limits);
  const double correlation = tally.norms.Value();
  if (tally.norms.count < kLeastGroupsForCorrelation || !(check.nmse <= kMostNmseForCorrelation) ||
      correlation >= least) {
    return;
  }
  check.failures.push_back(absl::StrFormat(
      "%s: the norms do not belong to their groups (correlation %.3f, want at least %.3g)%s",
      check.name, correlation, least, WorstText(check)));
}

// How a tensor does whose groups are not all plain rounding's; its failures are added to `check`.
Match JudgeOthers(const CqTally& tally, const TensorLimits& limits, TensorCheck& check) {
  if (IsHeldToPlain(tally, *check.width, limits.rounding)) {
    check.bad_groups = std::max(check.bad_groups, tally.other_groups);
    for (const std::string& text : tally.other_texts) {
      check.failures.push_back(absl::StrCat(check.name, ": ", text));
    }
    return Match::kDiffers;
  }
  const bool corrected = ApplyDefaultLimits(tally, limits, check);
  ApplyNormCorrelation(tally, limits, check);
  return corrected ? Match::kCorrected : Match::kWithin;
}

void JudgeCq(const CqTally& tally, const TensorLimits& limits, TensorCheck& check) {
  check.groups = tally.groups;
  check.plain_groups = tally.plain_groups;
  check.index_ties = tally.index_ties;
  check.norm_ties = tally.norm_ties;
  check.theory = quant::TheoreticalDistortion(*check.width);
  check.nmse = tally.squared_weights > 0 ? tally.squared_error / tally.squared_weights : 0;
  check.worst = tally.worst;
  ApplyGivenLimits(tally, limits, check);
  if (tally.other_groups > 0) {
    check.match = JudgeOthers(tally, limits, check);
  } else if (tally.plain_groups < tally.groups) {
    check.match = Match::kTies;
  }
  if (!check.failures.empty()) check.match = Match::kDiffers;
}

void JudgeExact(const ExactTally& tally, TensorCheck& check) {
  check.groups = tally.groups;
  check.nmse = tally.squared_values > 0 ? tally.squared_error / tally.squared_values : 0;
  check.worst = tally.worst;
  check.bad_groups = tally.bad_groups;
  for (const std::string& text : tally.texts) {
    check.failures.push_back(absl::StrCat(check.name, ": ", text));
  }
  if (tally.bad_groups > 0) check.match = Match::kDiffers;
}

// Ties are rare; many of them say that another encoder was at work.
void LimitTies(const TensorLimits& limits, TensorsReport& report) {
  uint64_t ties[2] = {0, 0};
  uint64_t counts[2] = {0, 0};
  for (const TensorCheck& check : report.tensors) {
    if (!check.width) continue;
    ties[0] += check.index_ties, counts[0] += check.values;
    ties[1] += check.norm_ties, counts[1] += check.groups;
  }
  const double limit[2] = {limits.max_index_ties, limits.max_norm_ties};
  const char* what[2] = {"indices", "norms"};
  for (int i = 0; i < 2; ++i) {
    const double most = std::max(1.0, limit[i] * static_cast<double>(counts[i]));
    if (static_cast<double>(ties[i]) <= most) continue;
    report.failures.push_back(
        absl::StrFormat("%d of %d %s differ from plain rounding at ties, want at most %.0f",
                        ties[i], counts[i], what[i], most));
  }
}

std::vector<size_t> PositionsToCompare(const format::Schema& schema) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    if (schema.tensors()[i].dtype != DType::kRaw) positions.push_back(i);
  }
  return positions;
}

TensorCheck NewCheck(const format::Archive& archive, size_t position) {
  const TensorSpec& spec = archive.schema().tensors()[position];
  TensorCheck check{.position = position, .name = spec.name, .dtype = spec.dtype};
  check.values = format::NumValues(spec.shape).value_or(0);
  if (spec.dtype == DType::kCq) check.width = archive.Cq(position).width;
  return check;
}

// For how many matrices the given limits were computed. They hold in all of them, or the tensors'
// failures say where not.
void CountLimits(const TensorLimits& limits, TensorsReport& report) {
  const auto matrices = static_cast<size_t>(std::ranges::count_if(
      report.tensors, [](const TensorCheck& check) { return check.width.has_value(); }));
  if (limits.max_tensor_ratio)
    report.limits.push_back({"max-tensor-ratio", *limits.max_tensor_ratio, matrices});
  if (limits.max_group_nmse)
    report.limits.push_back({"max-group-nmse", *limits.max_group_nmse, matrices});
}

void NoteCorrected(TensorsReport& report) {
  const auto count = std::ranges::count(report.tensors, Match::kCorrected, &TensorCheck::match);
  if (count == 0) return;
  report.notes.push_back(absl::StrFormat(
      "%d matrices are further from the weights than rounding is, as a calibration that corrects "
      "errors of others leaves them: what the model says tells whether they are right",
      count));
}

// Adds up the ranges of each tensor, in order, and judges it.
void Conclude(const format::Archive& archive, std::span<const RowRange> ranges,
              std::span<const RangeResult> results, const TensorLimits& limits,
              TensorsReport& report) {
  for (size_t i = 0; i < ranges.size();) {
    const size_t position = ranges[i].position;
    RangeResult sum;
    for (; i < ranges.size() && ranges[i].position == position; ++i) {
      sum.cq.Add(results[i].cq);
      sum.exact.Add(results[i].exact);
    }
    TensorCheck check = NewCheck(archive, position);
    if (check.width) {
      JudgeCq(sum.cq, limits, check);
    } else {
      JudgeExact(sum.exact, check);
    }
    report.values += check.values;
    report.tensors.push_back(std::move(check));
  }
  LimitTies(limits, report);
  NoteCorrected(report);
}

absl::Status CompareAll(const format::Archive& archive, const converter::TensorSource& source,
                        const TensorsOptions& options, TensorsReport& report) {
  const auto ranges = CutIntoRanges(archive.schema(), PositionsToCompare(archive.schema()));
  report.by_encoder = options.encoder != nullptr;
  std::vector<RangeResult> results(ranges.size());
  std::vector<Worker> workers(base::ResolveThreads(options.threads));
  const SourceCheck check(archive, source, options);
  RETURN_IF_ERROR(
      ForEachRange(ranges, {options.threads, options.progress}, [&](size_t range, size_t worker) {
        return check.CheckRange(ranges[range], workers[worker], results[range]);
      }));
  TensorLimits limits;
  limits.rounding = Rounding::kPlain;  // to the encoder's choice
  if (!report.by_encoder) limits = options.limits;
  Conclude(archive, ranges, results, limits, report);
  CountLimits(limits, report);
  return absl::OkStatus();
}

// "FP16 [256]"
std::string SpecText(const TensorSpec& spec) {
  const std::string dtype(format::DTypeName(spec.dtype));
  return spec.dtype == DType::kRaw ? dtype
                                   : absl::StrCat(dtype, " ", format::ShapeText(spec.shape));
}

// A head's matrices may also be FP16 where a build writes CQ.
bool FitsSpec(const TensorSpec& found, const TensorSpec& wanted) {
  if (found.shape == wanted.shape && found.dtype == wanted.dtype) return true;
  return format::IsHeadRole(wanted.id.role) && wanted.dtype == DType::kCq &&
         found.dtype == DType::kF16 &&
         format::NumValues(found.shape) == format::NumValues(wanted.shape);
}

// Whether the tensors can be compared by position: apart from the tokenizer, the same ones.
bool CompareSpecs(const format::Schema& found, const format::Schema& wanted,
                  TensorsReport& report) {
  bool comparable = true;
  for (const TensorSpec& spec : wanted.tensors()) {
    const auto position = found.Find(spec.id);
    if (position && FitsSpec(found.tensors()[*position], spec)) continue;
    comparable = comparable && spec.dtype == DType::kRaw;
    report.failures.push_back(
        absl::StrCat(spec.name, ": ", position ? SpecText(found.tensors()[*position]) : "missing",
                     ", want ", SpecText(spec)));
  }
  for (const TensorSpec& spec : found.tensors()) {
    if (wanted.Find(spec.id) || spec.dtype == DType::kRaw) continue;
    comparable = false;
    report.failures.push_back(
        absl::StrCat(spec.name, ": ", SpecText(spec), ", not in ", report.against));
  }
  return comparable;
}

void CompareTokenizer(const format::Archive& archive, const converter::TensorPlan& plan,
                      TensorsReport& report) {
  const auto found = archive.Tokenizer();
  if (plan.tokenizer().empty()) {
    if (found) report.notes.push_back("tokenizer: not compared, the source has none");
  } else if (found && !std::ranges::equal(*found, plan.tokenizer())) {
    report.failures.push_back(absl::StrFormat("tokenizer: %d bytes that are not the %d of %s",
                                              found->size(), plan.tokenizer().size(),
                                              plan.tokenizer_path()));
  }
}

void CompareWidths(const format::Archive& archive, const converter::TensorPlan& plan,
                   TensorsReport& report) {
  for (const size_t position : PositionsToCompare(plan.schema())) {
    const TensorSpec& spec = plan.schema().tensors()[position];
    if (spec.dtype != DType::kCq || archive.schema().tensors()[position].dtype != DType::kCq) {
      continue;
    }
    const format::Width found = archive.Cq(position).width;
    if (found == plan.widths()[position]) continue;
    report.failures.push_back(
        absl::StrFormat("%s: %s, want %s", spec.name, std::string(format::WidthName(found)),
                        std::string(format::WidthName(plan.widths()[position]))));
  }
}

}  // namespace

absl::StatusOr<TensorsReport> VerifyAgainstSource(const format::Archive& archive,
                                                  const converter::TensorSource& source,
                                                  const std::string& against,
                                                  const TensorsOptions& options) {
  TensorsReport report{.archive = archive.path(), .against = against};
  const absl::Status status = CompareAll(archive, source, options, report);
  if (!status.ok()) return base::WithContext(status, against);
  return report;
}

absl::StatusOr<TensorsReport> VerifyAgainstPlan(const format::Archive& archive,
                                                const converter::TensorPlan& plan,
                                                const TensorsOptions& options) {
  TensorsReport report{.archive = archive.path(), .against = plan.checkpoint().path()};
  report.failures = GeometryDifferences(archive.geometry(), plan.geometry());
  const bool comparable = CompareSpecs(archive.schema(), plan.schema(), report);
  CompareTokenizer(archive, plan, report);
  if (!comparable) return report;
  if (options.check_widths) CompareWidths(archive, plan, report);
  const absl::Status status = CompareAll(archive, plan, options, report);
  if (!status.ok()) return base::WithContext(status, report.against);
  return report;
}

}  // namespace needle::verify
