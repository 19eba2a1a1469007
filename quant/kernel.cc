#include "quant/kernel.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "quant/encode.h"
#include "quant/multiply_kernel.h"

namespace needle::quant {

using format::Width;

void QuantizedActivations::Assign(std::span<const float> x, size_t count, size_t cols,
                                  uint32_t group) {
  const size_t groups = (cols + group - 1) / group;
  count_ = count;
  cols_ = cols;
  padded_cols_ = groups * group;
  group_ = group;
  values_.resize(count * padded_cols_);
  scales_.resize(count * groups);
  const bool portable = UsePortable() || group != kSimdGroup;
  (portable ? QuantizePortable : QuantizeSimd)(
      {.x = x, .count = count, .cols = cols, .group = group, .values = values_, .scales = scales_});
}

absl::StatusOr<KernelMatrix> KernelMatrix::Make(const format::CqView& view) {
  if (view.group > 65536) {
    return absl::InvalidArgumentError(absl::StrFormat("group %d, want at most 65536", view.group));
  }
  ASSIGN_OR_RETURN(const Codebook codebook, CodebookFor(view));
  const auto entries = codebook.entries();
  KernelMatrix matrix;
  matrix.view_ = view;
  const float largest = std::max(std::fabs(entries.front()), std::fabs(entries.back()));
  matrix.table_scale_ = largest / 127.0F;
  for (size_t i = 0; i < entries.size(); ++i) {
    matrix.table_[i] = static_cast<int8_t>(std::nearbyint(entries[i] / matrix.table_scale_));
  }
  if (view.width == Width::kTernary) {
    // By crumb: 0 is weight 0, 1 is +1, 3 is -1; the invalid 2 decodes to 0 as everywhere.
    const auto by_code = matrix.table_;
    matrix.table_ = {by_code[1], by_code[2], by_code[1], by_code[0]};
  }
  return matrix;
}

void KernelMatrix::Multiply(const QuantizedActivations& x, size_t first, size_t count,
                            std::span<float> y, size_t y_stride) const {
  const MultiplyJob job = {
      .matrix = this, .x = &x, .first = first, .count = count, .y = y, .y_stride = y_stride};
  if (UsePortable() || group() != kSimdGroup) return MultiplyPortable(job);
  if (HasVnni()) return MultiplyVnni(job);
  MultiplySimd(job);
}

void KernelMatrix::GroupDots(const QuantizedActivations& x, size_t vector, size_t row,
                             std::span<int32_t> dots) const {
  for (size_t group = 0; group < dots.size(); ++group) {
    dots[group] = GroupDotPortable(*this, x, vector, row, group);
  }
}

}  // namespace needle::quant
