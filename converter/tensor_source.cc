#include "converter/tensor_source.h"

#include "base/status_macros.h"

namespace needle::converter {

uint64_t TensorCols(const format::TensorSpec& spec) {
  return spec.shape.empty() ? 0 : spec.shape.back();
}

uint64_t TensorRows(const format::TensorSpec& spec) {
  uint64_t rows = spec.shape.empty() ? 0 : 1;
  for (size_t i = 0; i + 1 < spec.shape.size(); ++i) rows *= spec.shape[i];
  return rows;
}

absl::StatusOr<std::vector<float>> ReadTensor(const TensorSource& source,
                                              const format::Schema& schema, size_t position) {
  const format::TensorSpec& spec = schema.tensors()[position];
  std::vector<float> values(TensorRows(spec) * TensorCols(spec));
  RETURN_IF_ERROR(source.ReadRows(position, 0, TensorRows(spec), values));
  return values;
}

}  // namespace needle::converter
