#include <algorithm>

#include "absl/container/fixed_array.h"
#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "quant/decode_kernel.h"
#include "quant/encode.h"
#include "quant/pack.h"
#include "quant/rotate.h"
#include "quant/rotate_kernel.h"
#include "quant/simd.h"

namespace needle::quant {
namespace {

using format::Width;

absl::Status CheckDecode(const format::CqView& view, const Codebook& codebook, uint64_t first,
                         uint64_t count, size_t values) {
  const format::CqLayout& layout = view.layout;
  if (first > layout.rows || count > layout.rows - first || values != count * layout.cols) {
    return absl::InvalidArgumentError(
        absl::StrFormat("rows %d + %d into %d values, want some of %d rows of %d columns", first,
                        count, values, layout.rows, layout.cols));
  }
  if (codebook.width() != view.width || codebook.group() != view.group) {
    return absl::InvalidArgumentError("the codebook is of another width or group");
  }
  return absl::OkStatus();
}

}  // namespace

std::array<float, 16> EntriesByPattern(const Codebook& codebook) {
  const auto c = codebook.entries();
  // Crumb 0 is weight 0, 1 is +1, 3 is -1; the invalid 2 reads as 0, as UnpackRow has it.
  if (codebook.width() == Width::kTernary) return {c[1], c[2], c[1], c[0]};
  std::array<float, 16> entries{};
  std::copy(c.begin(), c.end(), entries.begin());
  return entries;
}

void DecodeRowPortable(const DecodeJob& job, std::span<uint8_t> patterns, std::span<float> padded) {
  UnpackPatterns(format::StoredBits(job.width), job.packed, patterns);
  for (size_t i = 0; i < padded.size(); ++i) {
    const auto norm = base::LoadLe<uint16_t>(&job.norms[2 * (i / job.group)]);
    padded[i] = job.entries[patterns[i]] * base::F32FromF16(norm);
  }
  RotatePortable(padded, job.group);
}

absl::Status DecodeRows(const format::CqView& view, const Codebook& codebook, uint64_t first,
                        uint64_t count, std::span<float> weights) {
  RETURN_IF_ERROR(CheckDecode(view, codebook, first, count, weights.size()));
  const format::CqLayout& layout = view.layout;
  const auto decode = UsePortable() || view.group != kSimdGroup ? DecodeRowPortable : DecodeRowSimd;
  // On the stack for usual rows: the engine decodes some of them for each token.
  absl::FixedArray<uint8_t, 1024> patterns(layout.padded_cols);
  absl::FixedArray<float, 1024> padded(layout.cols == layout.padded_cols ? 0 : layout.padded_cols);
  DecodeJob job;
  job.width = view.width;
  job.group = view.group;
  job.entries = EntriesByPattern(codebook);
  for (uint64_t i = 0; i < count; ++i) {
    job.packed = view.indices.subspan((first + i) * layout.row_bytes, layout.row_bytes);
    job.norms = view.norms.subspan((first + i) * layout.groups * 2, layout.groups * 2);
    const auto row = weights.subspan(i * layout.cols, layout.cols);
    if (layout.cols == layout.padded_cols) {
      decode(job, patterns, row);
    } else {
      decode(job, patterns, padded);
      std::copy_n(padded.begin(), layout.cols, row.begin());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Codebook> CodebookFor(const format::CqView& view) {
  if (view.width == Width::kTernary || view.width == Width::kBinary) {
    return Codebook::Make(view.width, view.group, {});
  }
  return Codebook::FromEntries(view.width, view.group, view.codebook);
}

}  // namespace needle::quant
