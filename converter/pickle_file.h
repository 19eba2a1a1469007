// converter/pickle_file.h: a checkpoint or adapter as older packages pickle it. Specification:
// "Full-precision checkpoints", Files.
#ifndef NEEDLE_CONVERTER_PICKLE_FILE_H_
#define NEEDLE_CONVERTER_PICKLE_FILE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "converter/leaf_container.h"
#include "converter/pickle_reader.h"

namespace needle::converter {

// A dict {params: nested dicts of arrays, config, format_version, ...}, or an adapter's
// {lora: {path: {A, B}}, scale, ...}, whose leaves are then named lora/path/A.
class PickleFile final : public LeafContainer {
 public:
  // Errors as of MappedFile::Open and ReadPickle, with the path in front. DataLoss: not such a
  // dict, or an array whose bytes do not match its shape.
  static absl::StatusOr<std::unique_ptr<PickleFile>> Open(const std::string& path);

  const std::vector<Leaf>& leaves() const override { return leaves_; }
  absl::StatusOr<LeafData> Data(size_t index) const override;
  absl::StatusOr<std::optional<base::Json>> Metadata(std::string_view key) const override;
  std::vector<std::string> files() const override { return {file_.path()}; }

 private:
  PickleFile(base::MappedFile file, Pickle pickle)
      : file_(std::move(file)), pickle_(std::move(pickle)) {}

  absl::Status Flatten();
  std::optional<PickleRef> FindKey(std::string_view key) const;
  absl::Status AddTree(const std::string& prefix, PickleRef ref, int depth);
  absl::Status AddArray(const std::string& name, PickleRef ref);
  absl::StatusOr<base::Json> ToJson(PickleRef ref, int depth, size_t& budget) const;

  base::MappedFile file_;
  Pickle pickle_;
  std::vector<Leaf> leaves_;
  std::vector<PickleRef> arrays_;  // of each leaf
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_PICKLE_FILE_H_
