// cli/calibration.h: recipes and searched widths as `build` asks for them and prints them.
#ifndef NEEDLE_CLI_CALIBRATION_H_
#define NEEDLE_CLI_CALIBRATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "cli/command_line.h"
#include "converter/calibrate/bit_search.h"
#include "converter/calibrate/calibrate.h"
#include "converter/tensor_plan.h"
#include "quant/codebook.h"

namespace needle::cli {

struct CalibrationOptions {
  std::optional<std::string> recipe;  // default: best with `data`, else rtn
  std::optional<std::string> data, stats, target_size;
  std::optional<double> target_bits;

  bool has_target() const { return target_size || target_bits; }
  bool asks_for_work() const { return recipe || data || has_target(); }
};
// The options; those for widths exclude --bits and --bits-map.
void AddCalibrationOptions(Command& command, CalibrationOptions* options);

// A plan and, unless it is to be rounded plainly, who chose its indices and norms.
struct CalibratedPlan {
  std::shared_ptr<const converter::TensorPlan> plan;
  std::optional<calibrate::Calibration> calibration;
  std::optional<calibrate::BitSearchReport> search;

  const converter::TensorEncoder* encoder() const;
};

struct CalibrationInput {
  std::string checkpoint;
  converter::PlanOptions plan;  // with a target its bit map is not read
  quant::CodebookKind codebook = quant::CodebookKind::kReference;
  size_t threads = 0;
  bool show_progress = false;
};
// Plans, searches and calibrates as `options` say; nothing is written but a statistics file.
absl::StatusOr<CalibratedPlan> PlanAndCalibrate(const CalibrationOptions& options,
                                                const CalibrationInput& input);

// null for what was not asked for.
base::Json CalibrationJson(const CalibratedPlan& plan);
base::Json BitSearchJson(const CalibratedPlan& plan);
// Lines for people; empty when neither was asked for. `verbose`: every tensor and key.
std::string CalibrationText(const CalibratedPlan& plan, bool verbose);
// Of both.
std::vector<std::string> CalibrationWarnings(const CalibratedPlan& plan);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_CALIBRATION_H_
