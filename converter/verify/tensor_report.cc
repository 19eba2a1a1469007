#include "converter/verify/tensor_report.h"

#include <algorithm>

namespace needle::verify {

std::string_view MatchName(Match match) {
  switch (match) {
    case Match::kIdentical:
      return "identical";
    case Match::kTies:
      return "ties";
    case Match::kWithin:
      return "within";
    case Match::kDiffers:
      return "differs";
  }
  return "";
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
