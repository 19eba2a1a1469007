// quant/transpose.h: checkpoint values to the f32 rows that EncodeRows takes. Specification:
// "Tree -> archive" (a Flax kernel is [in, out] and becomes [out, in]).
#ifndef NEEDLE_QUANT_TRANSPOSE_H_
#define NEEDLE_QUANT_TRANSPOSE_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace needle::quant {

// Little-endian source values; f16, bf16 and f32 become f32 exactly (a signalling NaN may become
// quiet), f64 is rounded to nearest even, beyond f32's range to infinity.
enum class SourceType : uint8_t { kF32, kF16, kBf16, kF64 };
size_t SourceBytes(SourceType type);

// values[i] = source value i. `source` has values.size() * SourceBytes(type) bytes, at any
// alignment. Same bits on every machine; any number of threads.
void ConvertToF32(std::span<const uint8_t> source, SourceType type, std::span<float> values);

// Columns [first, first + count) of the row-major [rows, cols] matrix in `source` as rows:
// values[c * rows + r] = source[r, first + c], row-major [count, rows]. `source` has rows * cols *
// SourceBytes(type) bytes, at any alignment, and first + count <= cols. Fastest when `count` is a
// multiple of 16 and first + count ends on one; any number of threads.
void TransposeToF32(std::span<const uint8_t> source, SourceType type, size_t rows, size_t cols,
                    size_t first, size_t count, std::span<float> values);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_TRANSPOSE_H_
