#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "converter/verify/tensor_work.h"
#include "converter/verify/verify_tensors.h"
#include "quant/encode.h"
#include "quant/pack.h"

namespace needle::verify {
namespace {

using converter::Leaf;
using format::DType;
using format::TensorSpec;

struct GoldenTally {
  double squared_error = 0;
  double squared_values = 0;
  uint64_t groups = 0;
  uint64_t bad_groups = 0;
  bool all_equal = true;
  WorstGroup worst;
  std::vector<std::string> texts;

  void Add(const GoldenTally& next) {
    squared_error += next.squared_error;
    squared_values += next.squared_values;
    groups += next.groups;
    bad_groups += next.bad_groups;
    all_equal = all_equal && next.all_equal;
    KeepWorst(next.worst, worst);
    AppendFailures(next.texts, texts);
  }
};

// Where a group lies, and its values on both sides.
struct GroupPair {
  uint64_t row = 0;
  uint64_t group = 0;
  uint64_t column = 0;
  std::span<const float> found;
  std::span<const float> wanted;
};

double Largest(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

// How far a value decoded in f32 may be from ours, whatever the order of its operations.
//
// A value is w_j = sum_k H_jk c_k n over the g entries c_k of its group, with |H_jk| = 1 / sqrt(g)
// and the norm n: a sum of g products whose magnitudes add up to S = n sum_k |c_k| / sqrt(g), for
// every j. Each product passes through three roundings (of H_jk or the scale, with c_k, with n) and
// at most g - 1 additions, in whatever order, scaled before or after them: with u = 2^-24 the
// computed value is off by at most gamma(g + 2) S, gamma(m) = m u / (1 - m u) (Higham, Accuracy and
// Stability, section 3.1). Our own decoder adds in log2(g) levels: gamma(log2(g) + 3) S.
//
// A norm one step of f16 away changes every value by at least its 2^-11, and the largest is at
// least n |c| / sqrt(g), with |c| near 1 for any codebook: 4e-5 n at g = 128, while the bound is
// 9e-6 n.
class GoldenBound {
 public:
  GoldenBound(const format::CqView& view, const quant::Codebook& codebook)
      : view_(view), codebook_(codebook), codes_(view.group) {}

  double Of(uint64_t row, uint64_t group) {
    const uint64_t bytes = view_.layout.row_bytes / view_.layout.groups;
    const uint64_t place = row * view_.layout.groups + group;
    quant::UnpackRow(view_.width, view_.indices.subspan(place * bytes, bytes), codes_);
    double sum = 0;
    for (const uint8_t code : codes_) {
      sum += std::abs(static_cast<double>(codebook_.entries()[code]));
    }
    const auto norm =
        static_cast<double>(base::F32FromF16(base::LoadLe<uint16_t>(&view_.norms[2 * place])));
    const double g = static_cast<double>(view_.group);
    const auto levels = static_cast<double>(std::bit_width(view_.group));
    return (Gamma(g + 2) + Gamma(levels + 3)) * std::abs(norm) * sum / std::sqrt(g);
  }

 private:
  static double Gamma(double roundings) {
    const double error = std::ldexp(roundings, -24);
    return error / (1 - error);
  }

  format::CqView view_;
  const quant::Codebook& codebook_;
  std::vector<uint8_t> codes_;
};

// `most`: that a value may differ by. Conditions are written so that NaN breaks them.
void CompareGroup(const GroupPair& pair, double most, GoldenTally& tally) {
  double error = 0;
  double squares = 0;
  size_t first_bad = pair.found.size();
  for (size_t i = pair.found.size(); i-- > 0;) {
    const double wanted = static_cast<double>(pair.wanted[i]);
    const double difference = static_cast<double>(pair.found[i]) - wanted;
    error += difference * difference;
    squares += wanted * wanted;
    if (!(std::abs(difference) <= most)) first_bad = i;
  }
  ++tally.groups;
  tally.squared_error += error;
  tally.squared_values += squares;
  tally.all_equal = tally.all_equal && error == 0;
  KeepWorst({pair.row, pair.group, RelativeError(error, squares)}, tally.worst);
  if (first_bad == pair.found.size()) return;
  ++tally.bad_groups;
  if (tally.texts.size() >= kListedFailures) return;
  tally.texts.push_back(absl::StrFormat("row %d, group %d, column %d: %.9g, want %.9g within %.3g",
                                        pair.row, pair.group, pair.column + first_bad,
                                        pair.found[first_bad], pair.wanted[first_bad], most));
}

// The groups of a range one by one, each with how much it may differ.
template <typename MostOf>
void CompareGroups(const RowRange& range, uint64_t group_size, std::span<const float> found,
                   std::span<const float> wanted, MostOf most_of, GoldenTally& tally) {
  for (uint64_t begin = 0; begin < found.size();) {
    const uint64_t column = begin % range.cols;
    const uint64_t count = std::min(group_size, range.cols - column);
    const GroupPair pair = {range.first_row + begin / range.cols, column / group_size, column,
                            found.subspan(begin, count), wanted.subspan(begin, count)};
    CompareGroup(pair, most_of(pair), tally);
    begin += count;
  }
}

absl::Status CompareRange(const format::Archive& archive, const RowRange& range,
                          std::span<const float> wanted, std::optional<double> tolerance,
                          GoldenTally& tally) {
  std::vector<float> found(range.NumValues());
  if (archive.schema().tensors()[range.position].dtype != DType::kCq) {
    const std::vector<float> all = archive.Floats(range.position);
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(range.first_row * range.cols), found.size(),
                found.begin());
    CompareGroups(
        range, format::kGroup, found, wanted, [](const GroupPair&) { return 0.0; }, tally);
    return absl::OkStatus();
  }
  const format::CqView view = archive.Cq(range.position);
  ASSIGN_OR_RETURN(const quant::Codebook codebook, quant::CodebookFor(view));
  RETURN_IF_ERROR(quant::DecodeRows(view, codebook, range.first_row, range.num_rows, found));
  GoldenBound bound(view, codebook);
  const auto most = [&](const GroupPair& pair) {
    return tolerance ? *tolerance * Largest(pair.wanted) : bound.Of(pair.row, pair.group);
  };
  CompareGroups(range, view.group, found, wanted, most, tally);
  return absl::OkStatus();
}

// Why `leaf` cannot be the golden tensor of `spec`, or nothing.
std::optional<std::string> Misfit(const Leaf& leaf, const TensorSpec& spec) {
  if (leaf.type != quant::SourceType::kF32) {
    return absl::StrCat(spec.name, ": golden tensor of type ", leaf.type_name, ", want F32");
  }
  if (!std::ranges::equal(leaf.shape, spec.shape)) {
    return absl::StrCat(spec.name, ": golden tensor of shape ",
                        converter::LeafShapeText(leaf.shape), ", want ",
                        format::ShapeText(spec.shape));
  }
  return std::nullopt;
}

// The golden tensor of each position that has a fitting one; what does not fit is a failure.
std::map<size_t, size_t> MatchTensors(const format::Schema& schema, const NamedTensors& golden,
                                      TensorsReport& report) {
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < golden.tensors().size(); ++i) by_name[golden.tensors()[i].name] = i;
  std::map<size_t, size_t> matches;
  for (size_t position = 0; position < schema.tensors().size(); ++position) {
    const TensorSpec& spec = schema.tensors()[position];
    if (spec.dtype == DType::kRaw) continue;
    const auto found = by_name.find(spec.name);
    if (found == by_name.end()) {
      report.failures.push_back(absl::StrCat(spec.name, ": no golden tensor"));
      continue;
    }
    const auto misfit = Misfit(golden.tensors()[found->second], spec);
    if (misfit) {
      report.failures.push_back(*misfit);
    } else {
      matches[position] = found->second;
    }
    by_name.erase(found);
  }
  for (const auto& [name, index] : by_name) {
    report.failures.push_back(absl::StrCat(name, ": golden tensor that the archive has not"));
  }
  return matches;
}

TensorCheck Conclude(const format::Archive& archive, size_t position, const GoldenTally& tally) {
  const TensorSpec& spec = archive.schema().tensors()[position];
  TensorCheck check{.position = position, .name = spec.name, .dtype = spec.dtype};
  if (spec.dtype == DType::kCq) check.width = archive.Cq(position).width;
  check.values = format::NumValues(spec.shape).value_or(0);
  check.groups = tally.groups;
  check.nmse = RelativeError(tally.squared_error, tally.squared_values);
  check.worst = tally.worst;
  check.bad_groups = tally.bad_groups;
  for (const std::string& text : tally.texts) {
    check.failures.push_back(absl::StrCat(spec.name, ": ", text));
  }
  if (tally.bad_groups > 0) {
    check.match = Match::kDiffers;
  } else if (!tally.all_equal) {
    check.match = Match::kWithin;
  }
  return check;
}

// Progress over all tensors from progress over one.
WorkOptions WorkOf(const TensorsOptions& options, uint64_t done, uint64_t total) {
  WorkOptions work;
  work.threads = options.threads;
  if (options.progress) {
    work.progress = [&options, done, total](uint64_t part, uint64_t) {
      return options.progress(done + part, total);
    };
  }
  return work;
}

}  // namespace

absl::StatusOr<TensorsReport> VerifyGolden(const format::Archive& archive,
                                           const NamedTensors& golden,
                                           const TensorsOptions& options) {
  TensorsReport report{.archive = archive.path(), .against = golden.name()};
  const auto matches = MatchTensors(archive.schema(), golden, report);
  uint64_t total = 0;
  for (const auto& [position, index] : matches) {
    total += format::NumValues(archive.schema().tensors()[position].shape).value_or(0);
  }
  for (const auto& [position, index] : matches) {
    ASSIGN_OR_RETURN(const std::vector<float> wanted, golden.Values(index));
    const auto ranges = CutIntoRanges(archive.schema(), std::span<const size_t>(&position, 1));
    std::vector<GoldenTally> tallies(ranges.size());
    const auto compare = [&](size_t i, size_t) {
      const auto part = std::span<const float>(wanted).subspan(ranges[i].first_row * ranges[i].cols,
                                                               ranges[i].NumValues());
      return CompareRange(archive, ranges[i], part, options.limits.golden_tolerance, tallies[i]);
    };
    RETURN_IF_ERROR(ForEachRange(ranges, WorkOf(options, report.values, total), compare));
    for (size_t i = 1; i < tallies.size(); ++i) tallies[0].Add(tallies[i]);
    report.tensors.push_back(Conclude(archive, position, tallies[0]));
    report.values += report.tensors.back().values;
  }
  return report;
}

}  // namespace needle::verify
