// cli/calibration.h: options of `build` that choose indices and norms by more than rounding, and
// what is printed of them.
#ifndef NEEDLE_CLI_CALIBRATION_H_
#define NEEDLE_CLI_CALIBRATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "cli/command_line.h"
#include "converter/calibrate/calibrate.h"
#include "converter/tensor_plan.h"

namespace needle::cli {

struct CalibrationOptions {
  std::optional<std::string> recipe;  // default: best with data, plain rounding without
  std::optional<std::string> data, stats;
  uint64_t seed = 1;
};
void AddCalibrationOptions(Command& command, CalibrationOptions* options);

// What the options ask for; nothing for plain rounding.
std::optional<calibrate::CalibrateOptions> CalibrateOptionsOf(const CalibrationOptions& options);

base::Json CalibrationJson(const calibrate::CalibrationReport& report);
// A few lines: recipe, data, held-out measures, what stayed with plain rounding. `verbose`: a table
// of all tensors too.
std::string CalibrationText(const calibrate::CalibrationReport& report, bool verbose);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_CALIBRATION_H_
