// converter/npz_file.h: a NumPy archive of arrays. Specification: "Full-precision checkpoints",
// Files.
#ifndef NEEDLE_CONVERTER_NPZ_FILE_H_
#define NEEDLE_CONVERTER_NPZ_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/leaf_container.h"
#include "converter/npy_header.h"

namespace needle::converter {

// Members are decompressed when they are asked for; the last ones stay in memory (up to 256 MiB).
class NpzFile final : public LeafContainer {
 public:
  // Reads the directory and each member's header, and the config: member config.json, or NAME.json
  // beside NAME.npz. DataLoss naming the member.
  static absl::StatusOr<std::unique_ptr<NpzFile>> Open(const std::string& path);
  ~NpzFile() override;

  const std::vector<Leaf>& leaves() const override { return leaves_; }
  absl::StatusOr<LeafData> Data(size_t index) const override;
  absl::StatusOr<std::optional<base::Json>> Metadata(std::string_view key) const override;
  bool is_versioned() const override { return false; }
  std::vector<std::string> files() const override { return files_; }

 private:
  struct Zip;     // the open archive
  struct Member;  // where an array lies
  struct Cache;   // decompressed members

  explicit NpzFile(std::string path);
  absl::Status AddMember(uint64_t number);
  absl::Status ReadSiblingConfig();
  void SortLeaves();

  std::string path_;
  std::unique_ptr<Zip> zip_;
  std::unique_ptr<Cache> cache_;
  std::vector<Leaf> leaves_;
  std::vector<Member> members_;  // of each leaf
  std::optional<base::Json> config_;
  std::vector<std::string> files_;
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_NPZ_FILE_H_
