// converter/calibrate/width_choice.h: the best widths for a number of bytes, exactly.
#ifndef NEEDLE_CONVERTER_CALIBRATE_WIDTH_CHOICE_H_
#define NEEDLE_CONVERTER_CALIBRATE_WIDTH_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace needle::calibrate {

// One width of a group of tensors.
struct WidthOption {
  uint64_t bytes = 0;
  double cost = 0;  // finite
};

// The option of each group such that the bytes of all do not exceed `budget` and the sum of the
// costs, added in the groups' order, is the least possible; on a tie the one of fewer bytes, then
// the earlier options. Nothing when no choice fits. Dynamic programming over the sums that no other
// sum beats in both bytes and cost.
std::optional<std::vector<size_t>> ChooseOptions(std::span<const std::vector<WidthOption>> groups,
                                                 uint64_t budget);

// The sequence that never rises and is nearest to `values` in squares (pool adjacent violators).
// What measuring widths, narrow ones first, should have given: a wider one is never worse.
std::vector<double> NeverRising(std::span<const double> values);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_WIDTH_CHOICE_H_
