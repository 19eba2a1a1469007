// converter/verify/named_tensors.h: golden tensors, whatever file holds them.
#ifndef NEEDLE_CONVERTER_VERIFY_NAMED_TENSORS_H_
#define NEEDLE_CONVERTER_VERIFY_NAMED_TENSORS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/leaf.h"

namespace needle::verify {

// Tensors by canonical name (format::TensorSpec::name). Immutable; any number of threads may read.
class NamedTensors {
 public:
  virtual ~NamedTensors() = default;

  // Stands in messages: the path of the file.
  virtual const std::string& name() const = 0;
  // Names, types and shapes as the file has them, in any order, no name twice.
  virtual const std::vector<converter::Leaf>& tensors() const = 0;
  // All values of tensors()[index], which is of type quant::SourceType::kF32, row-major whatever
  // the file's own order. DataLoss: the payload is damaged.
  virtual absl::StatusOr<std::vector<float>> Values(size_t index) const = 0;
};

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_NAMED_TENSORS_H_
