// quant/codebook.h: the centroids of each width. Specification: "Codebooks".
#ifndef NEEDLE_QUANT_CODEBOOK_H_
#define NEEDLE_QUANT_CODEBOOK_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/width.h"

namespace needle::quant {

enum class CodebookKind : uint8_t {
  kReference,
  kAnalytic
};  // Monte-Carlo as in the field; exact Lloyd-Max

// The 28 stored values cb2 | cb3 | cb4 at group 128, as the specification's bit patterns, or the
// analytic ones.
std::span<const float> StoredCodebooks(CodebookKind kind);

// The entries of one width, ascending, divided by sqrt(group). A value type.
class Codebook {
 public:
  // For 2, 3, 4 bits the entries are taken from `stored` (28 values, group 128); ternary and binary
  // are analytic. InvalidArgument: `group` is not a power of two of at least 8, or `stored` is
  // needed and is not 28 ascending finite values.
  static absl::StatusOr<Codebook> Make(format::Width width, uint32_t group,
                                       std::span<const float> stored);
  // Of `kind` at group 128.
  static Codebook Standard(format::Width width, CodebookKind kind = CodebookKind::kReference);

  format::Width width() const { return width_; }
  uint32_t group() const { return group_; }
  std::span<const float> entries() const { return entries_; }
  // The index (0 = lowest entry) of the entry nearest to `unit` by the specification's rule; a tie
  // goes lower.
  uint32_t Nearest(float unit) const;

 private:
  format::Width width_ = format::Width::kCq2;
  uint32_t group_ = format::kGroup;
  std::vector<float> entries_;
};

// Theory: mean squared error over mean square of unit Gaussian weights, at the codebook of `width`.
double TheoreticalDistortion(format::Width width);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_CODEBOOK_H_
