// converter/report/collect.h: the numbers of a report, measured.
#ifndef NEEDLE_CONVERTER_REPORT_COLLECT_H_
#define NEEDLE_CONVERTER_REPORT_COLLECT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/report/report_data.h"
#include "converter/tensor_plan.h"
#include "converter/verify/eval_data.h"
#include "engine/archive_weights.h"

namespace needle::report {

struct ReportInputs {
  std::shared_ptr<const engine::ArchiveWeights> archive;  // not null
  // The checkpoint that the archive was made from, at the archive's depth. Null: none, and the
  // report says nothing of errors; behaviour is then compared with the archive in float numerics.
  std::shared_ptr<const converter::TensorPlan> against;
  std::string data;                           // name of the examples' file
  std::vector<verify::EvalExample> examples;  // none: the report says nothing of behaviour
};

struct ReportOptions {
  size_t max_changes = 50;      // changed examples that are listed
  size_t max_new_tokens = 256;  // of an answer
  size_t max_tokens = 0;        // of a teacher-forced example; 0: max_seq_len
  size_t threads = 0;           // 0: one per processor. Never shows in the report
  // `phase`: "tensors" (counted in values) or "examples". Called from one thread at a time; false
  // stops with Cancelled.
  std::function<bool(std::string_view phase, uint64_t done, uint64_t total)> progress;
};

// FailedPrecondition: examples, and an archive without a tokenizer. Errors as of
// verify::VerifyAgainstPlan and verify::Evaluate. A tensor that verification finds at fault is part
// of the report, not an error.
absl::StatusOr<ReportData> CollectReport(const ReportInputs& inputs, const ReportOptions& options);

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_COLLECT_H_
