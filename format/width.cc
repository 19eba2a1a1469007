#include "format/width.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/checked.h"

namespace needle::format {
namespace {

struct WidthRow {
  Width width;
  uint32_t stored_bits;
  uint32_t levels;
  std::string_view name;
  std::string_view text;
};

constexpr std::array<WidthRow, 5> kWidths = {{
    {Width::kBinary, 1, 2, "binary", "1"},
    {Width::kTernary, 2, 3, "ternary", "1.58"},
    {Width::kCq2, 2, 4, "CQ2", "2"},
    {Width::kCq3, 3, 8, "CQ3", "3"},
    {Width::kCq4, 4, 16, "CQ4", "4"},
}};

const WidthRow& RowOf(Width width) {
  return *std::find_if(kWidths.begin(), kWidths.end(),
                       [&](const WidthRow& row) { return row.width == width; });
}

}  // namespace

std::optional<Width> WidthFromRecordBits(uint32_t bits) {
  for (const WidthRow& row : kWidths) {
    if (static_cast<uint32_t>(row.width) == bits) return row.width;
  }
  return std::nullopt;
}

uint32_t StoredBits(Width width) { return RowOf(width).stored_bits; }
uint32_t NumLevels(Width width) { return RowOf(width).levels; }
std::string_view WidthName(Width width) { return RowOf(width).name; }
std::string_view WidthText(Width width) { return RowOf(width).text; }

std::optional<Width> WidthFromText(std::string_view text) {
  for (const WidthRow& row : kWidths) {
    if (row.text == text) return row.width;
  }
  return std::nullopt;
}

absl::StatusOr<CqLayout> CqLayout::Make(uint64_t rows, uint64_t cols, uint64_t group, Width width) {
  if (!std::has_single_bit(group) || group * StoredBits(width) % 8 != 0) {
    return absl::InvalidArgumentError("group is not a power of two that fills whole bytes");
  }
  const auto too_large = [] {
    return absl::InvalidArgumentError("the size of a CQ tensor does not fit in 64 bits");
  };
  const auto padded = base::CheckedRoundUp(cols, group);
  if (!padded) return too_large();
  const auto row_bits = base::CheckedMul(*padded, StoredBits(width));
  if (!row_bits) return too_large();
  CqLayout layout{.rows = rows,
                  .cols = cols,
                  .padded_cols = *padded,
                  .groups = *padded / group,
                  .row_bytes = *row_bits / 8,
                  .norms_offset = 0,
                  .num_bytes = 0};
  const auto index_bytes = base::CheckedMul(rows, layout.row_bytes);
  const auto norm_values = base::CheckedMul(rows, layout.groups);
  if (!index_bytes || !norm_values) return too_large();
  const auto norm_bytes = base::CheckedMul(*norm_values, 2);
  const auto total = norm_bytes ? base::CheckedAdd(*index_bytes, *norm_bytes) : std::nullopt;
  if (!total) return too_large();
  layout.norms_offset = *index_bytes;
  layout.num_bytes = *total;
  return layout;
}

}  // namespace needle::format
