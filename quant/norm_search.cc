#include "quant/norm_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "format/width.h"
#include "quant/code_table.h"
#include "quant/encode_kernel.h"
#include "quant/pack.h"
#include "quant/rotate.h"

namespace needle::quant {
namespace {

constexpr int kFactors = 23;
constexpr double kFirstFactor = 0.7;
constexpr double kFactorStep = 0.025;
constexpr int kRefinements = 3;

// A row at hand: its rotated values and its codes.
struct RowScratch {
  explicit RowScratch(const format::CqLayout& layout)
      : rotated(layout.padded_cols),
        codes(layout.padded_cols),
        trial(layout.padded_cols / layout.groups) {}

  void Load(std::span<const float> row, uint32_t group) {
    std::fill(std::copy(row.begin(), row.end(), rotated.begin()), rotated.end(), 0.0F);
    Rotate(rotated, group);
    values.assign(rotated.begin(), rotated.end());
  }

  std::vector<float> rotated;
  std::vector<double> values;  // the same
  std::vector<uint8_t> codes;
  std::vector<uint8_t> trial;
};

void Reindex(std::span<const double> group, const CodeTable& table, double norm,
             std::span<uint8_t> codes) {
  const double divisor = std::max(norm, kSmallestNorm);
  for (size_t i = 0; i < group.size(); ++i) codes[i] = table.Nearest(group[i] / divisor);
}

double BestNorm(std::span<const double> group, const CodeTable& table,
                std::span<const uint8_t> codes) {
  double dot = 0;
  double square = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const double entry = table[codes[i]];
    dot += group[i] * entry;
    square += entry * entry;
  }
  return dot > 0 && square > 0 ? dot / square : 0;
}

double SquaredError(std::span<const double> group, const CodeTable& table,
                    std::span<const uint8_t> codes, double norm) {
  double sum = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const double error = table[codes[i]] * norm - group[i];
    sum += error * error;
  }
  return sum;
}

// Improves a group's codes and norm.
void SearchGroup(std::span<const double> group, const CodeTable& table, std::span<uint8_t> codes,
                 uint16_t& norm, std::span<uint8_t> trial) {
  double square = 0;
  for (const double value : group) square += value * value;
  const double plain = std::sqrt(square);
  double least = SquaredError(group, table, codes, NormValue(norm));
  for (int factor = 0; factor < kFactors; ++factor) {
    double n = plain * (kFirstFactor + kFactorStep * factor);
    for (int round = 0; round < kRefinements; ++round) {
      Reindex(group, table, n, trial);
      n = BestNorm(group, table, trial);
    }
    const uint16_t bits = NormBits(n);
    Reindex(group, table, NormValue(bits), trial);
    const double error = SquaredError(group, table, trial, NormValue(bits));
    if (!(error < least)) continue;
    least = error;
    norm = bits;
    std::copy(trial.begin(), trial.end(), codes.begin());
  }
}

void MeasureGroup(const RowScratch& row, size_t begin, const Codebook& codebook, uint16_t norm,
                  std::span<const float> weights, EncodeStats& stats) {
  const auto entries = codebook.entries();
  const float stored = base::F32FromF16(norm);
  std::vector<float> errors(codebook.group());
  for (size_t i = 0; i < errors.size(); ++i) {
    errors[i] = entries[row.codes[begin + i]] * stored - row.rotated[begin + i];
  }
  ++stats.groups;
  stats.squared_error += static_cast<double>(SumOfSquares(errors));
  stats.squared_weights +=
      static_cast<double>(SumOfSquares(std::span(row.rotated).subspan(begin, codebook.group())));
  if (stored < base::kMinNormalF16) CountSmallNorm(weights, stats);
}

}  // namespace

absl::StatusOr<EncodeStats> SearchRows(std::span<const float> weights, size_t cols,
                                       size_t first_row, const Codebook& codebook,
                                       std::span<uint8_t> indices, std::span<uint16_t> norms) {
  RETURN_IF_ERROR(EncodeRows(weights, cols, first_row, codebook, indices, norms).status());
  const size_t rows = weights.size() / cols;
  const size_t group = codebook.group();
  ASSIGN_OR_RETURN(const format::CqLayout layout,
                   format::CqLayout::Make(rows, cols, group, codebook.width()));
  const CodeTable table(codebook);
  RowScratch scratch(layout);
  for (size_t r = 0; r < rows; ++r) {
    const auto packed = indices.subspan(r * layout.row_bytes, layout.row_bytes);
    scratch.Load(weights.subspan(r * cols, cols), codebook.group());
    UnpackRow(codebook.width(), packed, scratch.codes);
    for (size_t g = 0; g < layout.groups; ++g) {
      SearchGroup(std::span(scratch.values).subspan(g * group, group), table,
                  std::span(scratch.codes).subspan(g * group, group), norms[r * layout.groups + g],
                  scratch.trial);
    }
    PackRow(codebook.width(), scratch.codes, packed);
  }
  return MeasureRows(weights, cols, codebook, indices, norms);
}

absl::StatusOr<EncodeStats> MeasureRows(std::span<const float> weights, size_t cols,
                                        const Codebook& codebook, std::span<const uint8_t> indices,
                                        std::span<const uint16_t> norms) {
  const size_t rows = cols == 0 ? 0 : weights.size() / cols;
  ASSIGN_OR_RETURN(const format::CqLayout layout,
                   format::CqLayout::Make(rows, cols, codebook.group(), codebook.width()));
  if (weights.size() != rows * cols || indices.size() != rows * layout.row_bytes ||
      norms.size() != rows * layout.groups) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d weights, %d index bytes and %d norms, want rows of %d, %d and %d", weights.size(),
        indices.size(), norms.size(), cols, layout.row_bytes, layout.groups));
  }
  EncodeStats stats;
  RowScratch scratch(layout);
  const size_t group = codebook.group();
  for (size_t r = 0; r < rows; ++r) {
    const auto row = weights.subspan(r * cols, cols);
    scratch.Load(row, codebook.group());
    UnpackRow(codebook.width(), indices.subspan(r * layout.row_bytes, layout.row_bytes),
              scratch.codes);
    for (size_t g = 0; g < layout.groups; ++g) {
      const size_t begin = g * group;
      MeasureGroup(scratch, begin, codebook, norms[r * layout.groups + g],
                   row.subspan(begin, std::min(group, cols - begin)), stats);
    }
  }
  return stats;
}

}  // namespace needle::quant
