// engine/archive_weights.h: an archive as a source of weights.
#ifndef NEEDLE_ENGINE_ARCHIVE_WEIGHTS_H_
#define NEEDLE_ENGINE_ARCHIVE_WEIGHTS_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/weight_source.h"
#include "format/archive.h"

namespace needle::engine {

// Owns the archive. Nothing is decoded before it is asked for.
class ArchiveWeights : public WeightSource {
 public:
  explicit ArchiveWeights(format::Archive archive) : archive_(std::move(archive)) {}
  // Opens `path`. Errors as of format::Archive::Open.
  static absl::StatusOr<std::shared_ptr<const ArchiveWeights>> Open(const std::string& path);

  const format::Archive& archive() const { return archive_; }

  const std::string& name() const override { return archive_.path(); }
  const format::Geometry& geometry() const override { return archive_.geometry(); }
  const format::Schema& schema() const override { return archive_.schema(); }
  absl::StatusOr<std::vector<float>> Floats(format::TensorId id) const override;
  std::optional<format::CqView> Packed(format::TensorId id) const override;
  std::optional<std::span<const uint8_t>> Tokenizer() const override {
    return archive_.Tokenizer();
  }

 private:
  format::Archive archive_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_ARCHIVE_WEIGHTS_H_
