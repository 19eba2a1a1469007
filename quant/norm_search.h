// quant/norm_search.h: several norms tried for each group. Specification: "Better choices inside
// the same format", norm search.
#ifndef NEEDLE_QUANT_NORM_SEARCH_H_
#define NEEDLE_QUANT_NORM_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "quant/codebook.h"
#include "quant/encode.h"

namespace needle::quant {

// Arguments, errors and independence of rows as of EncodeRows. For each group the norm of plain
// rounding times 23 factors from 0.7 to 1.25, each refined three times by
//   n = <r, c[idx]> / <c[idx], c[idx]>, idx = nearest(r / n),
// and of these the one whose squared error after rounding the norm to f16 is the least; plain
// rounding unless that is strictly better. All in f64 on the rotated f32 values.
absl::StatusOr<EncodeStats> SearchRows(std::span<const float> weights, size_t cols,
                                       size_t first_row, const Codebook& codebook,
                                       std::span<uint8_t> indices, std::span<uint16_t> norms);

// The stats of rows that are already encoded, as EncodeRows would count them. Sizes as there.
// InvalidArgument: they do not fit.
absl::StatusOr<EncodeStats> MeasureRows(std::span<const float> weights, size_t cols,
                                        const Codebook& codebook, std::span<const uint8_t> indices,
                                        std::span<const uint16_t> norms);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_NORM_SEARCH_H_
