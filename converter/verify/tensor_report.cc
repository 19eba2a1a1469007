#include "converter/verify/tensor_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace needle::verify {

std::string_view MatchName(Match match) {
  switch (match) {
    case Match::kIdentical:
      return "identical";
    case Match::kTies:
      return "ties";
    case Match::kWithin:
      return "within";
    case Match::kCorrected:
      return "corrected";
    case Match::kDiffers:
      return "differs";
  }
  return "";
}

void AppendFailures(const std::vector<std::string>& texts, std::vector<std::string>& failures) {
  for (const std::string& text : texts) {
    if (failures.size() < kListedFailures) failures.push_back(text);
  }
}

double RelativeError(double squared_error, double squared_values) {
  if (squared_error == 0) return 0;
  if (squared_values == 0) return std::numeric_limits<double>::infinity();
  return squared_error / squared_values;
}

void KeepWorst(const WorstGroup& candidate, WorstGroup& worst) {
  if (!(candidate.nmse <= worst.nmse) && !std::isnan(worst.nmse)) worst = candidate;
}

bool TensorsReport::passed() const { return !tensors.empty() && num_failures() == 0; }

uint64_t TensorsReport::num_failures() const {
  uint64_t count = failures.size();
  for (const TensorCheck& tensor : tensors) {
    // A broken limit of the whole tensor comes without a bad group.
    if (tensor.match == Match::kDiffers) count += std::max<uint64_t>(1, tensor.bad_groups);
  }
  return count;
}

}  // namespace needle::verify
