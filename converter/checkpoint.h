// converter/checkpoint.h: a full-precision model, opened lazily. Specification: "Full-precision
// checkpoints", Files.
#ifndef NEEDLE_CONVERTER_CHECKPOINT_H_
#define NEEDLE_CONVERTER_CHECKPOINT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "converter/leaf_container.h"

namespace needle::converter {

// Names, types, shapes and the config; values on demand. Immutable after Open; any number of
// threads may read.
class Checkpoint {
 public:
  // Errors as of OpenLeafContainer. DataLoss: no config, or it is not an object; a format version
  // other than 2. Each message starts with the path.
  static absl::StatusOr<std::shared_ptr<const Checkpoint>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  // Sorted by name.
  const std::vector<Leaf>& leaves() const { return container_->leaves(); }
  // Position in leaves(), or nothing.
  std::optional<size_t> Find(std::string_view name) const;
  absl::StatusOr<LeafData> Data(size_t index) const { return container_->Data(index); }
  const base::Json& config() const { return config_; }
  std::vector<std::string> files() const { return container_->files(); }

 private:
  Checkpoint() = default;

  std::string path_;
  std::unique_ptr<LeafContainer> container_;
  base::Json config_;
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_CHECKPOINT_H_
