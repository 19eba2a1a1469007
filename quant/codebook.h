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

// kReference: the Monte-Carlo values that archives in the field carry. kAnalytic: exact Lloyd-Max.
enum class CodebookKind : uint8_t { kReference, kAnalytic };

// The 28 stored values cb2 | cb3 | cb4 at group 128, as the specification's bit patterns, or the
// analytic ones.
std::span<const float> StoredCodebooks(CodebookKind kind);

// The entries of one width, ascending, divided by sqrt(group). A value type.
class Codebook {
 public:
  // For 2, 3, 4 bits the entries are taken from `stored` (28 values, made for group 128; for
  // another group times sqrt(128/group)); ternary and binary are analytic and ignore `stored`.
  // InvalidArgument: `group` is not a power of two of at least 8, or `stored` is needed and is not
  // 28 finite values, ascending in each width.
  static absl::StatusOr<Codebook> Make(format::Width width, uint32_t group,
                                       std::span<const float> stored);
  // Of `entries` as they are, one for each level. InvalidArgument: a bad group, another number, or
  // not finite and ascending.
  static absl::StatusOr<Codebook> FromEntries(format::Width width, uint32_t group,
                                              std::span<const float> entries);
  // Of `kind` at group 128.
  static Codebook Standard(format::Width width, CodebookKind kind = CodebookKind::kReference);

  format::Width width() const { return width_; }
  uint32_t group() const { return group_; }
  std::span<const float> entries() const { return entries_; }
  // The index (0 = lowest entry) of the entry nearest to `unit` by the specification's rule; a tie
  // goes lower.
  uint32_t Nearest(float unit) const;

  // thresholds()[k] is the largest float that Nearest puts at or below entry k: for |unit| <= 2,
  // Nearest(unit) is the number of thresholds that are less than unit. Empty when two neighbours
  // are closer than 2^-20 or an entry is beyond +-2, where that need not hold; such a codebook
  // decodes but does not encode.
  std::span<const float> thresholds() const { return thresholds_; }

 private:
  format::Width width_ = format::Width::kCq2;
  uint32_t group_ = format::kGroup;
  std::vector<float> entries_;
  std::vector<float> thresholds_;
};

// Theory: mean squared error over mean square of Gaussian weights, as the specification's table has
// it.
double TheoreticalDistortion(format::Width width);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_CODEBOOK_H_
