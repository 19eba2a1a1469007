#include "quant/encode.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "format/width.h"
#include "quant/encode_kernel.h"
#include "quant/rotate.h"
#include "quant/simd.h"

namespace needle::quant {
namespace {

// What is wrong with the group at which the kernel stopped.
absl::Status BadGroup(const EncodeJob& job, size_t number, size_t first_row) {
  const size_t group = job.codebook->group();
  const size_t row = number / job.groups;
  const size_t begin = number % job.groups * group;
  const size_t end = std::min(begin + group, job.cols);
  const auto weights = job.weights.subspan(row * job.cols, job.cols);
  for (size_t column = begin; column < end; ++column) {
    if (std::isfinite(weights[column])) continue;
    return absl::DataLossError(absl::StrFormat("row %d, column %d: %g, want a finite number",
                                               first_row + row, column, weights[column]));
  }
  std::vector<float> rotated(group);
  std::copy(weights.begin() + static_cast<ptrdiff_t>(begin),
            weights.begin() + static_cast<ptrdiff_t>(end), rotated.begin());
  Rotate(rotated, job.codebook->group());
  const float norm = std::sqrt(SumOfSquares(rotated));
  return absl::DataLossError(absl::StrFormat(
      "row %d, columns %d to %d: norm %s, want at most 65504 (the largest f16)", first_row + row,
      begin, end - 1, std::isfinite(norm) ? absl::StrFormat("%.9g", norm) : "beyond f32"));
}

absl::Status CheckSizes(const EncodeJob& job) {
  if (job.codebook->thresholds().empty()) {
    return absl::InvalidArgumentError("the codebook's entries are too close to encode with");
  }
  const size_t norms = job.rows * job.groups;
  const size_t bytes = job.rows * job.row_bytes;
  if (job.rows * job.cols != job.weights.size() || job.indices.size() != bytes ||
      job.norms.size() != norms) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d weights in rows of %d, room for %d index bytes and %d norms, want whole rows, %d and "
        "%d",
        job.weights.size(), job.cols, job.indices.size(), job.norms.size(), bytes, norms));
  }
  return absl::OkStatus();
}

}  // namespace

void EncodeStats::Add(const EncodeStats& other) {
  groups += other.groups;
  zero_groups += other.zero_groups;
  subnormal_norms += other.subnormal_norms;
  squared_error += other.squared_error;
  squared_weights += other.squared_weights;
}

double EncodeStats::RelativeError() const {
  return squared_weights > 0 ? squared_error / squared_weights : 0;
}

absl::StatusOr<EncodeStats> EncodeRows(std::span<const float> weights, size_t cols,
                                       size_t first_row, const Codebook& codebook,
                                       std::span<uint8_t> indices, std::span<uint16_t> norms) {
  if (cols == 0) return absl::InvalidArgumentError("rows of 0 columns");
  const size_t rows = weights.size() / cols;
  ASSIGN_OR_RETURN(const format::CqLayout layout,
                   format::CqLayout::Make(rows, cols, codebook.group(), codebook.width()));
  const EncodeJob job{.weights = weights,
                      .rows = rows,
                      .cols = cols,
                      .groups = layout.groups,
                      .row_bytes = layout.row_bytes,
                      .codebook = &codebook,
                      .indices = indices,
                      .norms = norms};
  RETURN_IF_ERROR(CheckSizes(job));
  EncodeStats stats;
  const bool portable = UsePortable() || codebook.group() != kSimdGroup;
  const size_t bad = portable ? EncodeGroupsPortable(job, stats) : EncodeGroupsSimd(job, stats);
  if (bad != kNoBadGroup) return BadGroup(job, bad, first_row);
  return stats;
}

}  // namespace needle::quant
