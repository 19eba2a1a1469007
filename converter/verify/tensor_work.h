// converter/verify/tensor_work.h: tensors cut into runs of rows that threads share.
#ifndef NEEDLE_CONVERTER_VERIFY_TENSOR_WORK_H_
#define NEEDLE_CONVERTER_VERIFY_TENSOR_WORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "format/archive.h"

namespace needle::verify {

// Rows [first_row, first_row + num_rows) of the tensor at `position`.
struct RowRange {
  size_t position = 0;
  uint64_t first_row = 0;
  uint64_t num_rows = 0;
  uint64_t cols = 0;

  uint64_t NumValues() const { return num_rows * cols; }
};

// All rows of the tensors at `positions` (none RAW), in order, in ranges of about 64 Ki values and
// a multiple of 16 rows, by which transposed sources are read fastest.
std::vector<RowRange> CutIntoRanges(const format::Schema& schema,
                                    std::span<const size_t> positions);

struct WorkOptions {
  size_t threads = 0;
  std::function<bool(uint64_t values_done, uint64_t num_values)> progress;
};

// Calls body(range number, worker) for each range once, from several threads. Returns the error of
// the lowest range that has one, or Cancelled when progress said false; then not all ranges were
// run.
absl::Status ForEachRange(std::span<const RowRange> ranges, const WorkOptions& options,
                          const std::function<absl::Status(size_t range, size_t worker)>& body);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_TENSOR_WORK_H_
