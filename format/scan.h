// format/scan.h: passes over the values of a blob that find what an archive may not hold. They read
// eight bytes a step: opening an archive must not cost more than reading its norms.
#ifndef NEEDLE_FORMAT_SCAN_H_
#define NEEDLE_FORMAT_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace needle::format {

// Index of the first f16 / f32 that is NaN or infinite; `bytes` holds whole little-endian values.
std::optional<size_t> FindNonFiniteF16(std::span<const uint8_t> bytes);
std::optional<size_t> FindNonFiniteF32(std::span<const uint8_t> bytes);

// Index of the first byte with a ternary crumb of 2, which stands for no weight.
std::optional<size_t> FindInvalidCrumb(std::span<const uint8_t> packed);

// Index of the first byte that is not 0.
std::optional<size_t> FindNonZero(std::span<const uint8_t> bytes);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_SCAN_H_
