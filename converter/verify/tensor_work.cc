#include "converter/verify/tensor_work.h"

#include <algorithm>
#include <mutex>

#include "base/thread_pool.h"
#include "converter/tensor_source.h"

namespace needle::verify {
namespace {

constexpr uint64_t kValuesPerRange = 65536;
constexpr uint64_t kRowUnit = 16;

// What the threads share.
struct Shared {
  std::mutex mutex;
  uint64_t done = 0;
  uint64_t total = 0;
  size_t error_range = SIZE_MAX;
  absl::Status error;
  bool cancelled = false;
};

// Ranges below one with an error still run: theirs would be the error to report.
bool IsNeeded(size_t range, Shared& shared) {
  const std::lock_guard lock(shared.mutex);
  return !shared.cancelled && range < shared.error_range;
}

void Record(const absl::Status& status, size_t range, uint64_t values, const WorkOptions& options,
            Shared& shared) {
  const std::lock_guard lock(shared.mutex);
  if (!status.ok() && range < shared.error_range) {
    shared.error = status;
    shared.error_range = range;
  }
  shared.done += values;
  if (options.progress && !shared.cancelled) {
    shared.cancelled = !options.progress(shared.done, shared.total);
  }
}

}  // namespace

std::vector<RowRange> CutIntoRanges(const format::Schema& schema,
                                    std::span<const size_t> positions) {
  std::vector<RowRange> ranges;
  for (const size_t position : positions) {
    const uint64_t rows = converter::TensorRows(schema.tensors()[position]);
    const uint64_t cols = converter::TensorCols(schema.tensors()[position]);
    const uint64_t units = std::max<uint64_t>(1, kValuesPerRange / (cols * kRowUnit));
    const uint64_t step = units * kRowUnit;
    for (uint64_t first = 0; first < rows; first += step) {
      ranges.push_back({position, first, std::min(step, rows - first), cols});
    }
  }
  return ranges;
}

absl::Status ForEachRange(std::span<const RowRange> ranges, const WorkOptions& options,
                          const std::function<absl::Status(size_t, size_t)>& body) {
  Shared shared;
  for (const RowRange& range : ranges) shared.total += range.NumValues();
  base::ThreadPool pool(base::ResolveThreads(options.threads));
  pool.ParallelFor(ranges.size(), 1, [&](size_t begin, size_t end, size_t worker) {
    for (size_t i = begin; i < end; ++i) {
      if (!IsNeeded(i, shared)) continue;
      Record(body(i, worker), i, ranges[i].NumValues(), options, shared);
    }
  });
  if (!shared.error.ok()) return shared.error;
  return shared.cancelled ? absl::CancelledError("verification was stopped") : absl::OkStatus();
}

}  // namespace needle::verify
