#include <algorithm>
#include <cmath>
#include <vector>

#include "base/endian.h"
#include "base/half.h"
#include "quant/multiply_kernel.h"
#include "quant/rotate_kernel.h"

namespace needle::quant {
namespace {

// The stored bit pattern of weight `i` of a packed group.
uint32_t PatternAt(std::span<const uint8_t> packed, uint32_t bits, size_t i) {
  const size_t bit = i * bits;
  uint32_t word = packed[bit / 8];
  if (bit % 8 + bits > 8) word |= static_cast<uint32_t>(packed[bit / 8 + 1]) << 8;
  return (word >> (bit % 8)) & ((1U << bits) - 1);
}

float MultiplyRow(const MultiplyJob& job, size_t vector, size_t row) {
  const auto& view = job.matrix->view();
  const auto scales = job.x->scales(vector);
  float sum = 0;
  for (size_t group = 0; group < scales.size(); ++group) {
    const int32_t dot = GroupDotPortable(*job.matrix, *job.x, vector, row, group);
    const float norm = base::F32FromF16(
        base::LoadLe<uint16_t>(&view.norms[2 * (row * view.layout.groups + group)]));
    sum += static_cast<float>(dot) * norm * scales[group] * job.matrix->table_scale();
  }
  return sum;
}

// Rotates one group in place, writes its int8 values and returns its scale.
float QuantizeGroup(std::span<float> group, std::span<int8_t> values) {
  RotatePortable(group, static_cast<uint32_t>(group.size()));
  float largest = 0;
  for (const float value : group) largest = std::max(largest, std::fabs(value));
  const float scale = ActivationScale(largest);
  for (size_t i = 0; i < group.size(); ++i) {
    // nearbyint rounds to nearest even: nothing here changes the rounding mode.
    const float rounded = std::nearbyint(group[i] / scale);
    // Written so that a NaN, which no scale can hold, becomes a defined value.
    values[i] = static_cast<int8_t>(rounded >= -127.0F ? std::min(rounded, 127.0F) : -127.0F);
  }
  return scale;
}

}  // namespace

int32_t GroupDotPortable(const KernelMatrix& matrix, const QuantizedActivations& x, size_t vector,
                         size_t row, size_t group) {
  const auto& view = matrix.view();
  const uint32_t bits = format::StoredBits(view.width);
  const size_t bytes = size_t{view.group} * bits / 8;
  const auto packed = view.indices.subspan(row * view.layout.row_bytes + group * bytes, bytes);
  const auto values = x.values(vector).subspan(group * view.group, view.group);
  int32_t dot = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    dot += int32_t{matrix.table()[PatternAt(packed, bits, i)]} * int32_t{values[i]};
  }
  return dot;
}

void MultiplyPortable(const MultiplyJob& job) {
  for (size_t row = job.first; row < job.first + job.count; ++row) {
    for (size_t vector = 0; vector < job.x->count(); ++vector) {
      job.y[vector * job.y_stride + row] = MultiplyRow(job, vector, row);
    }
  }
}

void QuantizePortable(const QuantizeJob& job) {
  std::vector<float> rotated(job.group);
  for (size_t number = 0; number < job.scales.size(); ++number) {
    const auto group = GroupValues(job, number);
    std::fill(std::copy(group.begin(), group.end(), rotated.begin()), rotated.end(), 0.0F);
    job.scales[number] = QuantizeGroup(rotated, job.values.subspan(number * job.group, job.group));
  }
}

}  // namespace needle::quant
