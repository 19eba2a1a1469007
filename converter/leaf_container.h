// converter/leaf_container.h: what every checkpoint file offers, whatever its form. Specification:
// "Full-precision checkpoints", Files.
#ifndef NEEDLE_CONVERTER_LEAF_CONTAINER_H_
#define NEEDLE_CONVERTER_LEAF_CONTAINER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "converter/leaf.h"

namespace needle::converter {

// An open file (or set of shards) with named tensors and metadata. Opening reads headers only.
// Immutable afterwards; any number of threads may read.
class LeafContainer {
 public:
  virtual ~LeafContainer() = default;

  // Sorted by name, no name twice.
  virtual const std::vector<Leaf>& leaves() const = 0;
  // The bytes of leaves()[index]. DataLoss: the file's payload is damaged.
  virtual absl::StatusOr<LeafData> Data(size_t index) const = 0;
  // The value of a metadata key ("config", "format_version", "scale"), or nothing. DataLoss: it is
  // not the JSON that it has to be.
  virtual absl::StatusOr<std::optional<base::Json>> Metadata(std::string_view key) const = 0;
  // Whether the form carries a format_version.
  virtual bool is_versioned() const { return true; }
  // Every file that was opened: what an output must not overwrite and a manifest lists.
  virtual std::vector<std::string> files() const = 0;
};

// Opens `path` by its name: .npz, .pkl or .pickle, .safetensors (also NAME.safetensors that is only
// there as shards, or NAME.safetensors.index.json itself). NotFound, DataLoss, Unimplemented;
// InvalidArgument: another ending. Messages start with the path.
absl::StatusOr<std::unique_ptr<LeafContainer>> OpenLeafContainer(const std::string& path);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_LEAF_CONTAINER_H_
