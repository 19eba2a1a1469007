// base/checked.h: u64 arithmetic on sizes that come from files.
#ifndef NEEDLE_BASE_CHECKED_H_
#define NEEDLE_BASE_CHECKED_H_

#include <cstdint>
#include <optional>

namespace needle::base {

// a + b, or nothing when it does not fit in 64 bits.
constexpr std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  if (sum < a) return std::nullopt;
  return sum;
}

// a * b, or nothing when it does not fit in 64 bits.
constexpr std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  if (a != 0 && b > UINT64_MAX / a) return std::nullopt;
  return a * b;
}

// The smallest multiple of `unit` (not 0) at or above `value`, or nothing when it does not fit in
// 64 bits.
constexpr std::optional<uint64_t> CheckedRoundUp(uint64_t value, uint64_t unit) {
  const uint64_t rest = value % unit;
  return rest == 0 ? std::optional<uint64_t>(value) : CheckedAdd(value, unit - rest);
}

}  // namespace needle::base

#endif  // NEEDLE_BASE_CHECKED_H_
