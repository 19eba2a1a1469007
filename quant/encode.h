// quant/encode.h: CQ encoding and decoding of matrix rows. Specification: "Encoding one group",
// "Bad input".
#ifndef NEEDLE_QUANT_ENCODE_H_
#define NEEDLE_QUANT_ENCODE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "format/archive.h"
#include "quant/codebook.h"

namespace needle::quant {

// What encoding some rows cost. The two sums run over each group's rotated values, so the zeros
// that pad a row count too: in f32 as SumOfSquares, one group after the other added in f64. They do
// not depend on threads or instruction sets as long as callers add ranges in order.
struct EncodeStats {
  uint64_t groups = 0;
  uint64_t zero_groups = 0;
  // Norms below f16's normal range (6.1e-5) of groups that are not all zero, also when they round
  // to 0.
  uint64_t subnormal_norms = 0;
  double squared_error = 0;    // sum of (c[idx] * norm - rotated)^2, norm as stored
  double squared_weights = 0;  // sum of rotated^2
  void Add(const EncodeStats& other);
  double RelativeError() const;  // squared_error / squared_weights; 0 when there are no weights
};

// Encodes whole rows of `weights`, row-major [rows, cols], in groups of codebook.group() along a
// row; the tail of a row is padded with zeros. The result depends on the weights and the codebook
// alone; rows are independent, so callers may split them over threads. Outputs must not alias
// `weights`.
//   indices: rows * CqLayout::row_bytes bytes      norms: rows * groups, f16 bit patterns
// InvalidArgument: a size does not fit, or the codebook has no thresholds. DataLoss: a weight is
// not finite ("row R, column C: ...") or a norm exceeds 65504 ("row R, columns A to B: ..."): the
// first such group; rows are counted from `first_row`, and the outputs are then unspecified.
absl::StatusOr<EncodeStats> EncodeRows(std::span<const float> weights, size_t cols,
                                       size_t first_row, const Codebook& codebook,
                                       std::span<uint8_t> indices, std::span<uint16_t> norms);

// Decodes rows [first, first + count) of `view` to f32, row-major [count, cols] without padding:
// (c[idx] * norm) * H. `weights` has count * view.layout.cols values. InvalidArgument: sizes do not
// fit.
absl::Status DecodeRows(const format::CqView& view, const Codebook& codebook, uint64_t first,
                        uint64_t count, std::span<float> weights);

// The codebook that `view` is to be read with: the file's own, or the analytic one for ternary and
// binary.
absl::StatusOr<Codebook> CodebookFor(const format::CqView& view);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_ENCODE_H_
