// quant/encode_kernel.h: the inner loop of EncodeRows, once portable and once vectorised; both give
// the same bits. For encode.cc, tests and benchmarks.
#ifndef NEEDLE_QUANT_ENCODE_KERNEL_H_
#define NEEDLE_QUANT_ENCODE_KERNEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "quant/codebook.h"
#include "quant/encode.h"

namespace needle::quant {

// Sizes are those of EncodeRows and already checked; cols > 0.
struct EncodeJob {
  std::span<const float> weights;
  size_t rows = 0;
  size_t cols = 0;
  size_t groups = 0;  // a row
  size_t row_bytes = 0;
  const Codebook* codebook = nullptr;
  std::span<uint8_t> indices;
  std::span<uint16_t> norms;
};

inline constexpr size_t kNoBadGroup = std::numeric_limits<size_t>::max();

// Encodes the groups in order and adds to `stats`; stops at the first group whose norm is NaN or
// above 65504 and returns its number (row * groups + group), else kNoBadGroup.
size_t EncodeGroupsPortable(const EncodeJob& job, EncodeStats& stats);

// The same bits; codebook->group() must be 128.
size_t EncodeGroupsSimd(const EncodeJob& job, EncodeStats& stats);

// The divisor of a vanishing norm.
inline constexpr float kMinNorm = 1e-12F;

// The weights of group `number` (row * groups + group): fewer than a whole group at a row's end.
inline std::span<const float> GroupWeights(const EncodeJob& job, size_t number) {
  const size_t column = number % job.groups * job.codebook->group();
  return job.weights.subspan(number / job.groups * job.cols + column,
                             std::min<size_t>(job.codebook->group(), job.cols - column));
}

// Counts a group whose norm is below f16's normal range; `group` are its weights as they came.
void CountSmallNorm(std::span<const float> group, EncodeStats& stats);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_ENCODE_KERNEL_H_
