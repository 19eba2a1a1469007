// converter/safetensors_file.h: one .safetensors file. Specification: "Full-precision checkpoints",
// Files.
#ifndef NEEDLE_CONVERTER_SAFETENSORS_FILE_H_
#define NEEDLE_CONVERTER_SAFETENSORS_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "converter/leaf_container.h"

namespace needle::converter {

// What the header of a file says, checked against the file's size.
struct SafetensorsHeader {
  std::vector<Leaf> leaves;  // sorted by name
  struct Range {
    uint64_t offset = 0;  // from the start of the file
    uint64_t size = 0;
  };
  std::vector<Range> ranges;  // of each leaf
  std::map<std::string, std::string, std::less<>> metadata;
};

// Reads and checks the header of a whole file. DataLoss naming the tensor: ranges that overlap,
// leave a hole, end outside the file or do not match type and shape; a type that no safetensors
// file has; anything that is not the format's. Allocates in proportion to the header's bytes only.
absl::StatusOr<SafetensorsHeader> ParseSafetensors(std::span<const uint8_t> file);

class SafetensorsFile final : public LeafContainer {
 public:
  // Errors as of MappedFile::Open and ParseSafetensors, with the path in front.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::vector<Leaf>& leaves() const override { return header_.leaves; }
  absl::StatusOr<LeafData> Data(size_t index) const override;
  absl::StatusOr<std::optional<base::Json>> Metadata(std::string_view key) const override;
  std::vector<std::string> files() const override { return {file_.path()}; }

  // Strings as they stand.
  const std::map<std::string, std::string, std::less<>>& metadata() const {
    return header_.metadata;
  }

 private:
  SafetensorsFile(base::MappedFile file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  base::MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_SAFETENSORS_FILE_H_
