#include <algorithm>
#include <array>
#include <cmath>

#include "absl/container/fixed_array.h"
#include "base/half.h"
#include "quant/encode_kernel.h"
#include "quant/pack.h"
#include "quant/rotate.h"
#include "quant/rotate_kernel.h"

namespace needle::quant {
namespace {

// The f32 squared error of one group, summed as SumOfSquares does.
float SquaredError(std::span<const float> rotated, std::span<const uint8_t> codes,
                   std::span<const float> entries, float norm) {
  std::array<float, 16> partials{};
  for (size_t i = 0; i < rotated.size(); ++i) {
    const float error = entries[codes[i]] * norm - rotated[i];
    partials[i % 16] += error * error;
  }
  return FoldPartials(partials);
}

}  // namespace

void CountSmallNorm(std::span<const float> group, EncodeStats& stats) {
  const bool zero = std::all_of(group.begin(), group.end(), [](float w) { return w == 0.0F; });
  ++(zero ? stats.zero_groups : stats.subnormal_norms);
}

size_t EncodeGroupsPortable(const EncodeJob& job, EncodeStats& stats) {
  const Codebook& codebook = *job.codebook;
  const size_t group = codebook.group();
  const size_t group_bytes = job.row_bytes / job.groups;
  absl::FixedArray<float, 2 * format::kGroup> rotated(group);
  absl::FixedArray<uint8_t, 2 * format::kGroup> codes(group);
  for (size_t number = 0; number < job.rows * job.groups; ++number) {
    const auto weights = GroupWeights(job, number);
    std::fill(std::copy(weights.begin(), weights.end(), rotated.begin()), rotated.end(), 0.0F);
    RotatePortable(rotated, codebook.group());
    const float squares = SumOfSquares(rotated);
    const float norm = std::sqrt(squares);
    if (!(norm <= base::kMaxF16)) return number;
    if (norm < base::kMinNormalF16) CountSmallNorm(weights, stats);
    const float divisor = std::max(norm, kMinNorm);
    for (size_t i = 0; i < group; ++i) {
      codes[i] = static_cast<uint8_t>(codebook.Nearest(rotated[i] / divisor));
    }
    PackRow(codebook.width(), codes, job.indices.subspan(number * group_bytes, group_bytes));
    job.norms[number] = base::F16FromF32(norm);
    const float stored = base::F32FromF16(job.norms[number]);
    ++stats.groups;
    stats.squared_weights += static_cast<double>(squares);
    stats.squared_error +=
        static_cast<double>(SquaredError(rotated, codes, codebook.entries(), stored));
  }
  return kNoBadGroup;
}

}  // namespace needle::quant
