#include "converter/verify/cq_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "quant/encode.h"
#include "quant/pack.h"

namespace needle::verify {
namespace {

// What f32 rounding, in any order, does to the norm of g values, relative to it: half of the g
// roundings of a sum of squares, and the root's.
double NormSlack(uint32_t group) { return std::ldexp(static_cast<double>(group) / 2 + 1, -24); }

// The same for a coordinate of the rotated group over the norm: g + 1 roundings of a sum of
// products whose magnitudes add up to at most the norm (Higham, gamma; Cauchy-Schwarz), the norm's,
// and the division's, on a value of at most 1.
double IndexSlack(uint32_t group) {
  return std::ldexp(static_cast<double>(group) + 2, -24) + NormSlack(group);
}

// H times `values` in f64, far more exact than what is judged.
void RotateInF64(std::span<double> values) {
  for (size_t stride = 1; stride < values.size(); stride *= 2) {
    for (size_t i = 0; i < values.size(); ++i) {
      if ((i & stride) != 0) continue;
      const double a = values[i];
      const double b = values[i + stride];
      values[i] = a + b;
      values[i + stride] = a - b;
    }
  }
  const double scale = 1 / std::sqrt(static_cast<double>(values.size()));
  for (double& value : values) value *= scale;
}

double Norm(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// Whether `unit` lies in the cell of entry `level`, or within `slack` of it.
bool InCell(std::span<const float> entries, size_t level, double unit, double slack) {
  const auto midpoint = [&entries](size_t low) {
    return (static_cast<double>(entries[low]) + static_cast<double>(entries[low + 1])) / 2;
  };
  if (level > 0 && unit < midpoint(level - 1) - slack) return false;
  return level + 1 == entries.size() || unit <= midpoint(level) + slack;
}

}  // namespace

void Correlation::Add(double a, double b) {
  ++count;
  x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
}

void Correlation::Add(const Correlation& other) {
  count += other.count;
  x += other.x, y += other.y, xx += other.xx, yy += other.yy, xy += other.xy;
}

double Correlation::Value() const {
  const double n = static_cast<double>(count);
  const double var_x = std::max(0.0, n * xx - x * x);
  const double var_y = std::max(0.0, n * yy - y * y);
  // Below this, what is left of the difference of large sums is rounding.
  const bool x_constant = var_x <= 1e-9 * n * xx;
  const bool y_constant = var_y <= 1e-9 * n * yy;
  if (x_constant || y_constant) return x_constant && y_constant ? 1U : 0U;
  return (n * xy - x * y) / std::sqrt(var_x * var_y);
}

void Cosine::Add(const Cosine& other) { aa += other.aa, bb += other.bb, ab += other.ab; }

double Cosine::Value() const { return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0; }

void CqTally::Add(const CqTally& next) {
  groups += next.groups;
  plain_groups += next.plain_groups;
  index_ties += next.index_ties;
  norm_ties += next.norm_ties;
  other_groups += next.other_groups;
  other_norms += next.other_norms;
  squared_error += next.squared_error;
  squared_weights += next.squared_weights;
  KeepWorst(next.worst, worst);
  norms.Add(next.norms);
  direction.Add(next.direction);
  far_groups.insert(far_groups.end(), next.far_groups.begin(), next.far_groups.end());
  AppendFailures(next.other_texts, other_texts);
}

// A group that is not bit for bit plain rounding's.
struct CqRowCheck::Group {
  double norm = 0;  // of the source
  uint64_t index_ties = 0;
  uint64_t wrong_indices = 0;  // neither plain rounding's nor ties
  size_t first_wrong = 0;
  bool norm_differs = false;
  bool norm_tie = false;
  double squared_error = 0;
  double squared_weights = 0;
  Cosine direction = {};    // stored values, source
  double fitting_norm = 0;  // the least-squares norm of the stored indices

  bool IndicesPlain() const { return wrong_indices == 0; }
  bool Plain() const { return IndicesPlain() && (!norm_differs || norm_tie); }
};

CqRowCheck::CqRowCheck(const format::CqView& view, const quant::Codebook& codebook,
                       double far_group_nmse)
    : view_(view),
      codebook_(codebook),
      far_group_nmse_(far_group_nmse),
      group_bytes_(view.layout.row_bytes / view.layout.groups),
      plain_bytes_(group_bytes_),
      plain_codes_(view.group),
      stored_codes_(view.group),
      rotated_(view.group) {}

absl::StatusOr<bool> CqRowCheck::AddIfPlain(std::span<const float> weights, uint64_t first,
                                            uint64_t rows, CqTally& tally) {
  const format::CqLayout& layout = view_.layout;
  plain_rows_.resize(rows * layout.row_bytes);
  plain_norms_.resize(rows * layout.groups);
  ASSIGN_OR_RETURN(
      const quant::EncodeStats stats,
      quant::EncodeRows(weights, layout.cols, first, codebook_, plain_rows_, plain_norms_));
  const uint8_t* norms = &view_.norms[2 * first * layout.groups];
  if (std::memcmp(plain_rows_.data(), &view_.indices[first * layout.row_bytes],
                  plain_rows_.size()) != 0 ||
      std::memcmp(plain_norms_.data(), norms, 2 * plain_norms_.size()) != 0) {
    return false;
  }
  tally.groups += stats.groups;
  tally.plain_groups += stats.groups;
  tally.squared_error += stats.squared_error;
  tally.squared_weights += stats.squared_weights;
  return true;
}

absl::Status CqRowCheck::CheckChosen(const converter::TensorEncoder& encoder, const RowRange& range,
                                     std::span<const float> weights, CqTally& tally) {
  const format::CqLayout& layout = view_.layout;
  plain_rows_.resize(range.num_rows * layout.row_bytes);
  plain_norms_.resize(range.num_rows * layout.groups);
  ASSIGN_OR_RETURN(const quant::EncodeStats stats,
                   encoder.Encode({range.position, range.first_row, range.num_rows, layout.cols,
                                   weights, &codebook_, plain_rows_, plain_norms_}));
  tally.squared_error += stats.squared_error;
  tally.squared_weights += stats.squared_weights;
  tally.groups += plain_norms_.size();
  for (uint64_t i = 0; i < plain_norms_.size(); ++i) {
    const uint64_t place = range.first_row * layout.groups + i;
    const auto stored = view_.indices.subspan(place * group_bytes_, group_bytes_);
    const auto chosen = std::span(plain_rows_).subspan(i * group_bytes_, group_bytes_);
    const bool same_norm = base::LoadLe<uint16_t>(&view_.norms[2 * place]) == plain_norms_[i];
    if (same_norm && std::ranges::equal(stored, chosen)) {
      ++tally.plain_groups;
      continue;
    }
    ++tally.other_groups;
    if (tally.other_texts.size() >= kListedFailures) continue;
    tally.other_texts.push_back(absl::StrFormat("row %d, group %d: not the %s that the build chose",
                                                place / layout.groups, place % layout.groups,
                                                same_norm ? "indices" : "norm"));
  }
  return absl::OkStatus();
}

absl::Status CqRowCheck::Check(std::span<const float> weights, uint64_t row, CqTally& tally) {
  errors_.clear();
  row_squared_weights_ = 0;
  for (uint64_t group = 0; group < view_.layout.groups; ++group) {
    const uint64_t begin = group * view_.group;
    const auto values =
        weights.subspan(begin, std::min<uint64_t>(view_.group, weights.size() - begin));
    const uint64_t place = row * view_.layout.groups + group;
    stored_bytes_ = view_.indices.subspan(place * group_bytes_, group_bytes_);
    stored_norm_ = base::LoadLe<uint16_t>(&view_.norms[2 * place]);
    const auto stats = quant::EncodeRows(values, values.size(), row, codebook_, plain_bytes_,
                                         std::span<uint16_t>(&plain_norm_, 1));
    // The whole row's error counts columns from its start.
    if (!stats.ok()) return AddIfPlain(weights, row, 1, tally).status();
    ++tally.groups;
    row_squared_weights_ += stats->squared_weights;
    if (plain_norm_ == stored_norm_ && std::ranges::equal(plain_bytes_, stored_bytes_)) {
      ++tally.plain_groups;
      tally.squared_error += stats->squared_error;
      KeepWorst({row, group, stats->RelativeError()}, tally.worst);
      errors_.push_back({group, stats->squared_error, stats->squared_weights});
    } else {
      Judge(values, row, group, tally);
    }
  }
  tally.squared_weights += row_squared_weights_;
  CloseRow(row, tally);
  return absl::OkStatus();
}

void CqRowCheck::Judge(std::span<const float> weights, uint64_t row, uint64_t group,
                       CqTally& tally) {
  std::fill(std::copy(weights.begin(), weights.end(), rotated_.begin()), rotated_.end(), 0.0);
  RotateInF64(rotated_);
  Group result{.norm = Norm(rotated_)};
  JudgeIndices(result);
  MeasureError(result);
  tally.squared_error += result.squared_error;
  KeepWorst({row, group, RelativeError(result.squared_error, result.squared_weights)}, tally.worst);
  errors_.push_back({group, result.squared_error, result.squared_weights});
  if (result.Plain()) {
    tally.index_ties += result.index_ties;
    tally.norm_ties += result.norm_tie ? 1U : 0U;
    return;
  }
  ++tally.other_groups;
  tally.other_norms += result.IndicesPlain() ? 1U : 0U;
  tally.direction.Add(result.direction);
  tally.norms.Add(result.fitting_norm, static_cast<double>(base::F32FromF16(stored_norm_)));
  if (tally.other_texts.size() < kListedFailures) {
    tally.other_texts.push_back(
        absl::StrFormat("row %d, group %d: %s", row, group, Describe(result)));
  }
}

void CqRowCheck::JudgeIndices(Group& result) {
  quant::UnpackRow(view_.width, stored_bytes_, stored_codes_);
  quant::UnpackRow(view_.width, plain_bytes_, plain_codes_);
  const double slack = IndexSlack(view_.group);
  const double divisor = std::max(result.norm, 1e-12);
  for (size_t i = 0; i < stored_codes_.size(); ++i) {
    if (stored_codes_[i] == plain_codes_[i]) continue;
    if (InCell(codebook_.entries(), stored_codes_[i], rotated_[i] / divisor, slack)) {
      ++result.index_ties;
    } else if (result.wrong_indices++ == 0) {
      result.first_wrong = i;
    }
  }
  result.norm_differs = stored_norm_ != plain_norm_;
  const double norm_slack = NormSlack(view_.group);
  const uint16_t low = base::F16FromF32(static_cast<float>(result.norm * (1 - norm_slack)));
  const uint16_t high = base::F16FromF32(static_cast<float>(result.norm * (1 + norm_slack)));
  result.norm_tie = result.norm_differs && stored_norm_ >= low && stored_norm_ <= high;
}

void CqRowCheck::MeasureError(Group& result) const {
  const double norm = static_cast<double>(base::F32FromF16(stored_norm_));
  double product = 0;
  double entries_squared = 0;
  for (size_t i = 0; i < rotated_.size(); ++i) {
    const double entry = static_cast<double>(codebook_.entries()[stored_codes_[i]]);
    const double error = entry * norm - rotated_[i];
    result.squared_error += error * error;
    product += entry * rotated_[i];
    entries_squared += entry * entry;
  }
  result.squared_weights = result.norm * result.norm;
  result.direction = {norm * norm * entries_squared, result.squared_weights, norm * product};
  result.fitting_norm = entries_squared > 0 ? product / entries_squared : 0;
}

std::string CqRowCheck::Describe(const Group& group) const {
  std::string text;
  if (group.norm_differs && !group.norm_tie) {
    text = absl::StrFormat("norm %g (0x%04X), plain rounding gives %g (0x%04X)",
                           base::F32FromF16(stored_norm_), stored_norm_,
                           base::F32FromF16(plain_norm_), plain_norm_);
  }
  if (group.wrong_indices > 0) {
    absl::StrAppendFormat(&text,
                          "%s%d of %d indices, the first at %d of the group: level %d, "
                          "plain rounding gives %d",
                          text.empty() ? "" : "; ", group.wrong_indices, stored_codes_.size(),
                          group.first_wrong, stored_codes_[group.first_wrong],
                          plain_codes_[group.first_wrong]);
  }
  return text;
}

void CqRowCheck::CloseRow(uint64_t row, CqTally& tally) {
  const double mean = row_squared_weights_ / static_cast<double>(view_.layout.groups);
  for (const GroupError& error : errors_) {
    const double nmse = RelativeError(error.squared_error, std::max(error.squared_weights, mean));
    if (!(nmse <= far_group_nmse_)) tally.far_groups.push_back({row, error.group, nmse});
  }
}

}  // namespace needle::verify
