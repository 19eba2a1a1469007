#include "converter/calibrate/target_size.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace needle::calibrate {
namespace {

constexpr double kMost = 9007199254740992;  // 2^53

std::optional<double> UnitOf(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  const size_t power = std::string_view("KMG").find(unit[0] == 'k' ? 'K' : unit[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  if (unit[0] == 'k' && rest != "B") return std::nullopt;  // as SI has it: kB only
  if (rest != "" && rest != "B" && rest != "iB") return std::nullopt;
  double value = 1;
  for (size_t i = 0; i <= power; ++i) value *= rest == "B" ? 1000 : 1024;
  return value;
}

}  // namespace

absl::StatusOr<uint64_t> ParseTargetSize(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> unit = UnitOf(text.substr(end));
  double number = 0;
  if (unit && absl::SimpleAtod(base::AbslView(text.substr(0, end)), &number)) {
    const double bytes = number * *unit;
    if (bytes >= 1 && bytes < kMost) return static_cast<uint64_t>(bytes);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("size '%s', want bytes or a number with K, M, G (1024), kB, MB, GB (1000)",
                      std::string(text)));
}

}  // namespace needle::calibrate
