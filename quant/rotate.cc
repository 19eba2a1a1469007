#include "quant/rotate.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "quant/rotate_kernel.h"
#include "quant/simd.h"

namespace needle::quant {
namespace {

void RotateGroup(std::span<float> values, float scale) {
  for (size_t stride = 1; stride < values.size(); stride *= 2) {
    for (size_t start = 0; start < values.size(); start += 2 * stride) {
      for (size_t i = start; i < start + stride; ++i) {
        const float a = values[i];
        const float b = values[i + stride];
        values[i] = a + b;
        values[i + stride] = a - b;
      }
    }
  }
  for (float& value : values) value *= scale;
}

}  // namespace

float RotationScale(uint32_t group) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(group)));
}

void RotatePortable(std::span<float> values, uint32_t group) {
  const float scale = RotationScale(group);
  for (size_t start = 0; start < values.size(); start += group) {
    RotateGroup(values.subspan(start, group), scale);
  }
}

void Rotate(std::span<float> values, uint32_t group) {
  (UsePortable() ? RotatePortable : RotateSimd)(values, group);
}

float FoldPartials(std::span<float, 16> partials) {
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) partials[j] += partials[j + width];
  }
  return partials[0];
}

float SumOfSquares(std::span<const float> values) {
  std::array<float, 16> partials{};
  for (size_t i = 0; i < values.size(); ++i) partials[i % 16] += values[i] * values[i];
  return FoldPartials(partials);
}

}  // namespace needle::quant
