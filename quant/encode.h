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

// What encoding some rows cost. Sums are f64 over rows in ascending order, so the figures do not
// depend on threads as long as callers add ranges in order.
struct EncodeStats {
  uint64_t groups = 0;
  uint64_t zero_groups = 0;
  uint64_t subnormal_norms =
      0;  // norms below f16's normal range (6.1e-5) that are not zero, also when they round to 0
  double squared_error =
      0;  // sum of (decoded - weight)^2 over logical weights, in the rotated domain
  double squared_weights = 0;  // sum of weight^2
  void Add(const EncodeStats& other);
  double RelativeError() const;  // squared_error / squared_weights; 0 when both are 0
};

// Encodes whole rows of `weights`, row-major [rows, cols], in groups of codebook.group() along a
// row; the tail of a row is padded with zeros. The result depends on the weights and the codebook
// alone; rows are independent, so callers may split them over threads. Outputs must not alias
// `weights`.
//   indices: rows * CqLayout::row_bytes bytes      norms: rows * groups, f16 bit patterns
// InvalidArgument: a size does not fit. DataLoss: a weight is not finite or a norm exceeds 65504;
// the message names row and column ("row R, column C: ..."), rows counted from `first_row`.
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
