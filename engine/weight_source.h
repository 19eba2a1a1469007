// engine/weight_source.h: where a model's weights come from: an archive, or a float checkpoint.
#ifndef NEEDLE_ENGINE_WEIGHT_SOURCE_H_
#define NEEDLE_ENGINE_WEIGHT_SOURCE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/archive.h"
#include "format/geometry.h"
#include "format/schema.h"

namespace needle::engine {

// Tensors by identity. Immutable and usable by any number of threads; views live as long as the
// source.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Stands in error messages: the path of the archive or checkpoint.
  virtual const std::string& name() const = 0;
  virtual const format::Geometry& geometry() const = 0;
  virtual const format::Schema& schema() const = 0;

  // All values of a tensor in f32, row-major in the schema's shape: CQ decoded without padding,
  // hada_p1 and hada_p2 as the numbers they hold. NotFound: the schema has no such tensor, or it is
  // RAW. Other errors: the values cannot be read.
  virtual absl::StatusOr<std::vector<float>> Floats(format::TensorId id) const = 0;

  // The packed form of a tensor that is CQ here; nothing when it is not, or when this source holds
  // floats only.
  virtual std::optional<format::CqView> Packed(format::TensorId id) const = 0;

  // The tokenizer attachment's bytes, or nothing.
  virtual std::optional<std::span<const uint8_t>> Tokenizer() const = 0;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_WEIGHT_SOURCE_H_
