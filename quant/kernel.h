// quant/kernel.h: products straight from packed indices. Specification: "The deployment kernel,
// CQ-WxA8".
#ifndef NEEDLE_QUANT_KERNEL_H_
#define NEEDLE_QUANT_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "format/archive.h"

namespace needle::quant {

// Rotated, int8-quantised activations for one matrix width: `count` vectors of `cols` values,
// padded to whole groups. Reused between calls so that decoding a token allocates nothing.
class QuantizedActivations {
 public:
  // Steps 1 of the kernel for `count` vectors, row-major [count, cols].
  void Assign(std::span<const float> x, size_t count, size_t cols, uint32_t group);

  size_t count() const { return count_; }
  size_t padded_cols() const { return padded_cols_; }
  uint32_t group() const { return group_; }
  std::span<const int8_t> values(size_t vector) const;  // padded_cols
  std::span<const float> scales(size_t vector) const;   // a scale for each group

 private:
  size_t count_ = 0;
  size_t padded_cols_ = 0;
  uint32_t group_ = 0;
  std::vector<int8_t> values_;
  std::vector<float> scales_;
};

// A CQ matrix made ready for products: its int8 codebook, and whatever layout the kernel likes.
// Refers to the bytes of `view`, which must outlive it.
class KernelMatrix {
 public:
  static absl::StatusOr<KernelMatrix> Make(const format::CqView& view);

  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  uint32_t group() const { return group_; }

  // y[v, r] for rows [first, first + count) of the matrix and every vector v of `x`: y is row-major
  // [x.count(), y_stride], and row r is written at column r (not r - first), so threads may share
  // one y. y_row += (f32)(dot) * norm * s * cs, groups in order; bit-identical on every machine and
  // split.
  void Multiply(const QuantizedActivations& x, size_t first, size_t count, std::span<float> y,
                size_t y_stride) const;

  // The int32 dot product of each group of one row with vector `vector` of x, for tests. `dots` has
  // a value a group.
  void GroupDots(const QuantizedActivations& x, size_t vector, size_t row,
                 std::span<int32_t> dots) const;

 private:
  format::CqView view_;
  size_t rows_ = 0;
  size_t cols_ = 0;
  uint32_t group_ = 0;
  std::vector<int8_t> codebook_;  // ci
  float codebook_scale_ = 0;      // cs
  std::vector<float> norms_;      // decoded, row-major [rows, groups]
};

// The instruction set that kernels run on: "AVX3_DL", "AVX2", ..., or "portable".
// `NEEDLE_SIMD=portable` in the environment (read once) chooses the portable twin everywhere.
const char* SimdTarget();

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_KERNEL_H_
