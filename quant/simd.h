// quant/simd.h: which twin of the kernels runs.
#ifndef NEEDLE_QUANT_SIMD_H_
#define NEEDLE_QUANT_SIMD_H_

#include <cstddef>

namespace needle::quant {

// Groups of other sizes always take the portable twin.
inline constexpr size_t kSimdGroup = 128;

// The instruction set that kernels run on: "AVX3_DL", "AVX2", ..., or "portable".
// `NEEDLE_SIMD=portable` in the environment (read once) chooses the portable twin everywhere.
const char* SimdTarget();

// Whether the portable twin was asked for.
bool UsePortable();

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_SIMD_H_
