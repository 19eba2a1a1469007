// tests/support/build_archive.h: a checkpoint file built in one call.
#ifndef NEEDLE_TESTS_SUPPORT_BUILD_ARCHIVE_H_
#define NEEDLE_TESTS_SUPPORT_BUILD_ARCHIVE_H_

#include <string>

#include "absl/status/statusor.h"
#include "converter/build.h"
#include "converter/checkpoint.h"
#include "converter/tensor_plan.h"

namespace needle::tests {

// Options with the shipped scheme and no tokenizer.
inline converter::PlanOptions ShippedOptions() {
  converter::PlanOptions options;
  options.bit_map = *quant::BitMap::Parse(quant::kShippedScheme);
  options.tokenizer = "";
  return options;
}

inline absl::StatusOr<converter::TensorPlan> MakePlan(
    const std::string& path, const converter::PlanOptions& options = ShippedOptions()) {
  auto checkpoint = converter::Checkpoint::Open(path);
  if (!checkpoint.ok()) return checkpoint.status();
  return converter::TensorPlan::Make(*checkpoint, options);
}

inline absl::StatusOr<converter::BuildReport> BuildArchive(
    const std::string& path, const std::string& target,
    const converter::PlanOptions& options = ShippedOptions()) {
  auto plan = MakePlan(path, options);
  if (!plan.ok()) return plan.status();
  return converter::Build(*plan, target, {});
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_BUILD_ARCHIVE_H_
