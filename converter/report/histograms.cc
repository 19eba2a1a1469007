#include "converter/report/histograms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "quant/codebook.h"
#include "quant/encode.h"
#include "quant/pack.h"

namespace needle::report {
namespace {

// Half octaves that hold every f16 value: from 2^-24, the smallest, to below 2^16.
constexpr int kLowestExponent = -24;
constexpr int kHighestExponent = 16;
constexpr size_t kNumBins = 2 * (kHighestExponent - kLowestExponent);

double GaussianBelow(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

IndexHistogram EmptyHistogram(const quant::Codebook& codebook) {
  IndexHistogram result{.width = codebook.width()};
  const double scale = std::sqrt(static_cast<double>(codebook.group()));
  for (const float entry : codebook.entries()) {
    result.entries.push_back(static_cast<double>(entry) * scale);
  }
  result.counts.assign(result.entries.size(), 0);
  double below = 0;
  for (size_t i = 0; i < result.entries.size(); ++i) {
    const bool last = i + 1 == result.entries.size();
    const double upper = last ? 1 : GaussianBelow((result.entries[i] + result.entries[i + 1]) / 2);
    result.expected.push_back(upper - below);
    below = upper;
  }
  return result;
}

void AddIndices(const format::CqView& view, IndexHistogram& result) {
  std::vector<uint8_t> codes(view.layout.padded_cols);
  for (uint64_t row = 0; row < view.layout.rows; ++row) {
    quant::UnpackRow(view.width,
                     view.indices.subspan(row * view.layout.row_bytes, view.layout.row_bytes),
                     codes);
    for (const uint8_t code : codes) ++result.counts[code];
  }
}

size_t BinOf(double norm) {
  const double place = 2 * (std::log2(norm) - kLowestExponent);
  return std::min(static_cast<size_t>(std::max(place, 0.0)), kNumBins - 1);
}

void AddNorm(double norm, NormHistogram& result, std::array<uint64_t, kNumBins>& bins) {
  ++result.total;
  if (norm == 0) {
    ++result.zero;
    return;
  }
  ++bins[BinOf(norm)];
  result.subnormal += norm < static_cast<double>(base::kMinNormalF16) ? 1U : 0U;
  result.smallest = std::min(result.smallest, norm);
  result.largest = std::max(result.largest, norm);
}

}  // namespace

uint64_t IndexHistogram::total() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

absl::StatusOr<std::vector<IndexHistogram>> CountIndices(const format::Archive& archive) {
  std::map<format::Width, IndexHistogram> by_width;
  for (size_t i = 0; i < archive.records().size(); ++i) {
    if (archive.schema().tensors()[i].dtype != format::DType::kCq) continue;
    const format::CqView view = archive.Cq(i);
    ASSIGN_OR_RETURN(const quant::Codebook codebook, quant::CodebookFor(view));
    AddIndices(view, by_width.try_emplace(view.width, EmptyHistogram(codebook)).first->second);
  }
  std::vector<IndexHistogram> result;
  for (const format::Width width : format::kAllWidths) {
    if (const auto found = by_width.find(width); found != by_width.end()) {
      result.push_back(std::move(found->second));
    }
  }
  return result;
}

NormHistogram CountNorms(const format::Archive& archive) {
  NormHistogram result{.smallest = std::numeric_limits<double>::infinity()};
  std::array<uint64_t, kNumBins> bins = {};
  for (size_t i = 0; i < archive.records().size(); ++i) {
    if (archive.schema().tensors()[i].dtype != format::DType::kCq) continue;
    const format::CqView view = archive.Cq(i);
    for (size_t at = 0; at < view.norms.size(); at += sizeof(uint16_t)) {
      const auto bits = base::LoadLe<uint16_t>(view.norms.data() + at);
      AddNorm(std::abs(static_cast<double>(base::F32FromF16(bits))), result, bins);
    }
  }
  const auto used = [](uint64_t count) { return count > 0; };
  const auto first = std::find_if(bins.begin(), bins.end(), used);
  const auto last = std::find_if(bins.rbegin(), bins.rend(), used).base();
  if (first == bins.end()) {
    result.smallest = 0;
    return result;
  }
  result.first_exponent = kLowestExponent + 0.5 * static_cast<double>(first - bins.begin());
  result.counts.assign(first, last);
  return result;
}

}  // namespace needle::report
