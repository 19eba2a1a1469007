// converter/safetensors_shards.h: a checkpoint split over several files, with an index.
// Specification: "Full-precision checkpoints", Files.
#ifndef NEEDLE_CONVERTER_SAFETENSORS_SHARDS_H_
#define NEEDLE_CONVERTER_SAFETENSORS_SHARDS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/leaf_container.h"
#include "converter/safetensors_file.h"

namespace needle::converter {

class SafetensorsShards final : public LeafContainer {
 public:
  // Opens NAME.safetensors.index.json and the files that it lists, all beside it and no others.
  // DataLoss naming shard and tensor: a shard is missing or damaged, index and shards do not agree
  // on where each tensor is, or metadata differs between shards.
  static absl::StatusOr<std::unique_ptr<SafetensorsShards>> Open(const std::string& index_path);

  const std::vector<Leaf>& leaves() const override { return leaves_; }
  absl::StatusOr<LeafData> Data(size_t index) const override;
  absl::StatusOr<std::optional<base::Json>> Metadata(std::string_view key) const override;
  std::vector<std::string> files() const override;

 private:
  struct Place {
    size_t shard;
    size_t leaf;
  };

  absl::Status AddShard(const std::string& name, const base::Json& weight_map);
  absl::Status CheckMetadata() const;
  void SortLeaves();

  std::string index_path_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::vector<Leaf> leaves_;
  std::vector<Place> places_;  // of each leaf
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_SAFETENSORS_SHARDS_H_
