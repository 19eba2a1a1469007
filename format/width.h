// format/width.h: the widths of a CQ tensor and the bytes that one takes. Specification: "CQ blob",
// "Packing".
#ifndef NEEDLE_FORMAT_WIDTH_H_
#define NEEDLE_FORMAT_WIDTH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace needle::format {

// Values are the `bits` of a directory record.
enum class Width : uint32_t { kBinary = 1, kCq2 = 2, kCq3 = 3, kCq4 = 4, kTernary = 5 };

inline constexpr Width kAllWidths[] = {Width::kBinary, Width::kTernary, Width::kCq2, Width::kCq3,
                                       Width::kCq4};
inline constexpr uint32_t kGroup = 128;  // weights a group in every archive written here

// The width of a record's `bits`, or nothing.
std::optional<Width> WidthFromRecordBits(uint32_t bits);
// Stored bits a weight: 1, 2, 3, 4; ternary 2.
uint32_t StoredBits(Width width);
// Number of codebook entries: 2, 3 (ternary), 4, 8, 16.
uint32_t NumLevels(Width width);
// "binary", "ternary", "CQ2", "CQ3", "CQ4".
std::string_view WidthName(Width width);
// As in the bit map's grammar: "1", "1.58", "2", "3", "4".
std::string_view WidthText(Width width);
// The inverse of WidthText; exactly those five texts.
std::optional<Width> WidthFromText(std::string_view text);

// Where things lie in the blob of a [rows, cols] CQ tensor: packed indices, then norms.
struct CqLayout {
  uint64_t rows = 0;
  uint64_t cols = 0;          // logical
  uint64_t padded_cols = 0;   // rounded up to a multiple of group
  uint64_t groups = 0;        // a row
  uint64_t row_bytes = 0;     // packed indices of one row
  uint64_t norms_offset = 0;  // from the start of the blob
  uint64_t num_bytes = 0;     // of the blob

  // InvalidArgument when a size does not fit in 64 bits, `group` is not a power of two, or rows of
  // `group` indices do not fill whole bytes.
  static absl::StatusOr<CqLayout> Make(uint64_t rows, uint64_t cols, uint64_t group, Width width);
};

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_WIDTH_H_
