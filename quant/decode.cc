#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "quant/encode.h"
#include "quant/pack.h"
#include "quant/rotate.h"

namespace needle::quant {
namespace {

// One row to `padded` floats; `codes` is room for as many codes.
void DecodeRow(const format::CqView& view, const Codebook& codebook, uint64_t row,
               std::span<uint8_t> codes, std::span<float> padded) {
  const format::CqLayout& layout = view.layout;
  UnpackRow(view.width, view.indices.subspan(row * layout.row_bytes, layout.row_bytes), codes);
  const auto entries = codebook.entries();
  for (size_t i = 0; i < padded.size(); ++i) {
    const uint64_t norm = row * layout.groups + i / view.group;
    padded[i] = entries[codes[i]] * base::F32FromF16(base::LoadLe<uint16_t>(&view.norms[2 * norm]));
  }
  Rotate(padded, view.group);
}

}  // namespace

absl::Status DecodeRows(const format::CqView& view, const Codebook& codebook, uint64_t first,
                        uint64_t count, std::span<float> weights) {
  const format::CqLayout& layout = view.layout;
  if (first > layout.rows || count > layout.rows - first || weights.size() != count * layout.cols) {
    return absl::InvalidArgumentError(
        absl::StrFormat("rows %d + %d into %d values, want some of %d rows of %d columns", first,
                        count, weights.size(), layout.rows, layout.cols));
  }
  if (codebook.width() != view.width || codebook.group() != view.group) {
    return absl::InvalidArgumentError("the codebook is of another width or group");
  }
  std::vector<uint8_t> codes(layout.padded_cols);
  std::vector<float> padded(layout.padded_cols);
  for (uint64_t i = 0; i < count; ++i) {
    DecodeRow(view, codebook, first + i, codes, padded);
    std::copy_n(padded.begin(), layout.cols,
                weights.begin() + static_cast<ptrdiff_t>(i * layout.cols));
  }
  return absl::OkStatus();
}

absl::StatusOr<Codebook> CodebookFor(const format::CqView& view) {
  if (view.width == format::Width::kTernary || view.width == format::Width::kBinary) {
    return Codebook::Make(view.width, view.group, {});
  }
  return Codebook::FromEntries(view.width, view.group, view.codebook);
}

}  // namespace needle::quant
