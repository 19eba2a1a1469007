// engine/model.h: a model ready to run. Specification: "The model the reference engine runs".
#ifndef NEEDLE_ENGINE_MODEL_H_
#define NEEDLE_ENGINE_MODEL_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/numerics.h"
#include "engine/weight_source.h"
#include "format/geometry.h"

namespace needle::engine {

struct Weights;  // engine/weights.h

struct ModelOptions {
  Numerics numerics = Numerics::kFloat;
  size_t threads = 1;  // of each Session; 0: one per processor. Results do not depend on it.
};

// The weights of the trunk in the form in which `numerics` uses them. Immutable; may be used by any
// number of sessions and threads. In kernel numerics matrices stay packed where the source holds
// them.
class Model {
 public:
  // InvalidArgument: no source, or kernel numerics with a source that holds floats only. Other
  // errors as of WeightSource::Floats, with the source's name.
  static absl::StatusOr<Model> Load(std::shared_ptr<const WeightSource> source,
                                    const ModelOptions& options);

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const format::Geometry& geometry() const { return source_->geometry(); }
  const WeightSource& source() const { return *source_; }
  const ModelOptions& options() const { return options_; }
  Numerics numerics() const { return options_.numerics; }

  // For the engine's own blocks.
  const Weights& weights() const { return *weights_; }

 private:
  Model(std::shared_ptr<const WeightSource> source, const ModelOptions& options,
        std::unique_ptr<const Weights> weights);

  std::shared_ptr<const WeightSource> source_;
  ModelOptions options_;
  std::unique_ptr<const Weights> weights_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_MODEL_H_
