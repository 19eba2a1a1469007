// converter/report/histograms.h: how an archive's indices and norms are spread. Specification: "CQ
// blob", "Codebooks".
#ifndef NEEDLE_CONVERTER_REPORT_HISTOGRAMS_H_
#define NEEDLE_CONVERTER_REPORT_HISTOGRAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "format/archive.h"
#include "format/width.h"

namespace needle::report {

// How often each entry of a width's codebook is used, padding included.
struct IndexHistogram {
  format::Width width = format::Width::kCq2;
  std::vector<double> entries = {};  // of the codebook, times sqrt(group): in standard deviations
  std::vector<uint64_t> counts = {};
  // Share of unit Gaussian values that are nearest to the entry.
  std::vector<double> expected = {};

  uint64_t total() const;
};

// Norms of all groups by size. Bin i counts norms from 2^(first_exponent + i/2) on, below the next.
struct NormHistogram {
  double first_exponent = 0;
  std::vector<uint64_t> counts = {};
  uint64_t total = 0;
  uint64_t zero = 0;       // in no bin
  uint64_t subnormal = 0;  // below f16's normal range, in a bin
  double smallest = 0;     // of those that are not zero
  double largest = 0;
};

// One for each width that the archive uses, narrow ones first. Errors as of quant::CodebookFor.
absl::StatusOr<std::vector<IndexHistogram>> CountIndices(const format::Archive& archive);
NormHistogram CountNorms(const format::Archive& archive);

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_HISTOGRAMS_H_
