// quant/decode_kernel.h: decoding of one row, once portable and once vectorised; both give the same
// bits. For decode.cc, tests and benchmarks.
#ifndef NEEDLE_QUANT_DECODE_KERNEL_H_
#define NEEDLE_QUANT_DECODE_KERNEL_H_

#include <array>
#include <cstdint>
#include <span>

#include "format/width.h"
#include "quant/codebook.h"

namespace needle::quant {

struct DecodeJob {
  std::span<const uint8_t> packed;  // of one row
  std::span<const uint8_t> norms;   // of the row, little-endian f16
  format::Width width = format::Width::kCq2;
  uint32_t group = 0;
  std::array<float, 16> entries;  // by stored bit pattern: ternary by crumb
};

// The entries of `codebook` by stored bit pattern.
std::array<float, 16> EntriesByPattern(const Codebook& codebook);

// `patterns` is room for as many bytes as `padded` has values: the row with its padding.
void DecodeRowPortable(const DecodeJob& job, std::span<uint8_t> patterns, std::span<float> padded);
// The group must be 128.
void DecodeRowSimd(const DecodeJob& job, std::span<uint8_t> patterns, std::span<float> padded);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_DECODE_KERNEL_H_
