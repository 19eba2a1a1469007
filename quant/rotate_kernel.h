// quant/rotate_kernel.h: Rotate, once portable and once vectorised; both give the same bits. For
// rotate.cc, tests and benchmarks.
#ifndef NEEDLE_QUANT_ROTATE_KERNEL_H_
#define NEEDLE_QUANT_ROTATE_KERNEL_H_

#include <cstdint>
#include <span>

namespace needle::quant {

void RotatePortable(std::span<float> values, uint32_t group);
void RotateSimd(std::span<float> values, uint32_t group);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_ROTATE_KERNEL_H_
