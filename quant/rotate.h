// quant/rotate.h: the Walsh-Hadamard rotation of a group. Specification: "Encoding one group",
// "Determinism".
#ifndef NEEDLE_QUANT_ROTATE_H_
#define NEEDLE_QUANT_ROTATE_H_

#include <cstdint>
#include <span>

namespace needle::quant {

// In place, each run of `group` values (a power of two; values.size() a multiple of it):
// butterflies over strides 1, 2, ..., group/2, then times RotationScale(group). Its own inverse up
// to rounding. Same bits on every machine.
void Rotate(std::span<float> values, uint32_t group);

// (f32)(1/sqrt(group)).
float RotationScale(uint32_t group);

// The specification's sum of squares: 16 partial sums, folded 8, 4, 2, 1. Same bits on every
// machine.
float SumOfSquares(std::span<const float> values);
// Its second half: folds the partial sums in place and returns the total.
float FoldPartials(std::span<float, 16> partials);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_ROTATE_H_
