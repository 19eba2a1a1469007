// converter/tensor_source.h: tensors of a schema as f32, by position.
#ifndef NEEDLE_CONVERTER_TENSOR_SOURCE_H_
#define NEEDLE_CONVERTER_TENSOR_SOURCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "format/schema.h"

namespace needle::converter {

// Any number of threads may read at once.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // Rows [first, first + count) of the tensor at `position` of the schema, row-major [count, cols]
  // by TensorRows and TensorCols; values.size() == count * cols. InvalidArgument: out of range, or
  // the tokenizer. DataLoss: the input's payload is damaged.
  virtual absl::Status ReadRows(size_t position, uint64_t first, uint64_t count,
                                std::span<float> values) const = 0;
};

// A tensor seen as a matrix: its last dimension is a row, all others together count rows. 1 x n for
// a vector; 0 for RAW.
uint64_t TensorRows(const format::TensorSpec& spec);
uint64_t TensorCols(const format::TensorSpec& spec);

// All values of the tensor at `position`. For tensors that fit in memory.
absl::StatusOr<std::vector<float>> ReadTensor(const TensorSource& source,
                                              const format::Schema& schema, size_t position);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_TENSOR_SOURCE_H_
