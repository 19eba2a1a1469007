// base/endian.h: little-endian loads and stores, the only way in which file bytes become numbers.
#ifndef NEEDLE_BASE_ENDIAN_H_
#define NEEDLE_BASE_ENDIAN_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace needle::base {

// Everything here copies bytes as they stand, and the byte path counts on IEEE arithmetic.
static_assert(std::endian::native == std::endian::little,
              "needle-build needs a little-endian machine");
static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

// The number whose little-endian bytes start at `bytes`; sizeof(T) bytes must be readable. No
// alignment is needed.
template <typename T>
T LoadLe(const void* bytes) {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Writes `value` as sizeof(T) little-endian bytes. No alignment is needed.
template <typename T>
void StoreLe(void* bytes, T value) {
  static_assert(std::is_arithmetic_v<T>);
  std::memcpy(bytes, &value, sizeof(T));
}

}  // namespace needle::base

#endif  // NEEDLE_BASE_ENDIAN_H_
