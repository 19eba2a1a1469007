// converter/ladder.h: many depths of a checkpoint from one encoding of each tensor. Specification:
// "Subnetworks: --layers N".
#ifndef NEEDLE_CONVERTER_LADDER_H_
#define NEEDLE_CONVERTER_LADDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/build.h"
#include "converter/tensor_plan.h"

namespace needle::converter {

struct LadderTarget {
  uint32_t depth = 0;
  std::string path;
};

struct LadderRung {
  uint32_t depth = 0;
  std::string path;
  uint64_t file_bytes = 0;
  // In file order. `stats` are those of the whole tensor; empty where this depth keeps only some of
  // a tensor's rows.
  std::vector<TensorReport> tensors;
};

struct LadderReport {
  BuildReport deepest;            // of the deepest target, from which all others are cut
  std::vector<LadderRung> rungs;  // one for each target, in the order given
  double seconds = 0;
};

// Writes each target; every one is byte-identical with a Build at its depth with the same options.
// `options.layers` is not read. InvalidArgument: no target, a depth or path given twice; others as
// of TensorPlan::Make and Build. All targets are checked before any work; when a later one fails,
// earlier ones are complete and stay.
absl::StatusOr<LadderReport> BuildLadder(const std::shared_ptr<const Checkpoint>& checkpoint,
                                         const PlanOptions& options,
                                         const std::vector<LadderTarget>& targets,
                                         const BuildOptions& build_options);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_LADDER_H_
