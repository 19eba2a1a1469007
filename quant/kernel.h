// quant/kernel.h: products straight from packed indices. Specification: "The deployment kernel,
// CQ-WxA8".
#ifndef NEEDLE_QUANT_KERNEL_H_
#define NEEDLE_QUANT_KERNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "format/archive.h"
#include "quant/simd.h"

namespace needle::quant {

// Rotated, int8-quantised activations for one matrix width: `count` vectors of `cols` values,
// padded to whole groups. Reused between calls so that decoding a token allocates nothing.
class QuantizedActivations {
 public:
  // Step 1 of the kernel for `count` vectors, row-major [count, cols], in groups of `group` (a
  // power of two of at least 8).
  void Assign(std::span<const float> x, size_t count, size_t cols, uint32_t group);

  size_t count() const { return count_; }
  size_t cols() const { return cols_; }
  size_t padded_cols() const { return padded_cols_; }
  uint32_t group() const { return group_; }
  // padded_cols() values of vector `vector` < count().
  std::span<const int8_t> values(size_t vector) const {
    return std::span(values_).subspan(vector * padded_cols_, padded_cols_);
  }
  // A scale for each group of that vector.
  std::span<const float> scales(size_t vector) const {
    const size_t groups = padded_cols_ / group_;
    return std::span(scales_).subspan(vector * groups, groups);
  }

 private:
  size_t count_ = 0;
  size_t cols_ = 0;
  size_t padded_cols_ = 0;
  uint32_t group_ = 1;
  std::vector<int8_t> values_;
  std::vector<float> scales_;
};

// A CQ matrix made ready for products. Refers to the bytes of `view`, which must outlive it, and
// copies none of them. Immutable; any number of threads may use it.
class KernelMatrix {
 public:
  // InvalidArgument: as CodebookFor, or a group above 65536 (an int32 could not hold its dot).
  static absl::StatusOr<KernelMatrix> Make(const format::CqView& view);

  const format::CqView& view() const { return view_; }
  size_t rows() const { return view_.layout.rows; }
  size_t cols() const { return view_.layout.cols; }
  uint32_t group() const { return view_.group; }
  // ci by stored bit pattern (a ternary crumb, otherwise the index), and cs.
  const std::array<int8_t, 16>& table() const { return table_; }
  float table_scale() const { return table_scale_; }

  // y[v, r] for rows [first, first + count) of the matrix and every vector v of `x`: y is row-major
  // [x.count(), y_stride], and row r is written at column r (not r - first), so threads may share
  // one y. y_row += (((f32)dot * norm) * s) * cs from 0, groups in order; bit-identical on every
  // machine and split; splits at multiples of 8 rows are fastest. `x` must be of cols() columns and
  // this group, and finite.
  void Multiply(const QuantizedActivations& x, size_t first, size_t count, std::span<float> y,
                size_t y_stride) const;

  // The int32 dot product of each group of one row with vector `vector` of x, for tests. `dots` has
  // a value a group.
  void GroupDots(const QuantizedActivations& x, size_t vector, size_t row,
                 std::span<int32_t> dots) const;

 private:
  format::CqView view_;
  std::array<int8_t, 16> table_{};
  float table_scale_ = 0;
};

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_KERNEL_H_
