// format/archive.h: a .cact file, mapped, validated and read-only.
// Specification: "The .cact container", all of it; "What makes a file invalid" is Open's list of
// checks.
#ifndef NEEDLE_FORMAT_ARCHIVE_H_
#define NEEDLE_FORMAT_ARCHIVE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "format/header.h"
#include "format/record.h"
#include "format/schema.h"
#include "format/tokenizer_table.h"

namespace needle::format {

// A CQ tensor inside an archive. Views into the archive's bytes: valid as long as the Archive that
// gave it.
struct CqView {
  Width width = Width::kCq2;
  uint32_t group = 0;
  CqLayout layout;
  std::span<const uint8_t> indices;  // layout.rows * layout.row_bytes, packed
  std::span<const uint8_t> norms;    // layout.rows * layout.groups little-endian f16
  std::span<const float>
      codebook;  // the file's own for 2, 3, 4 bits; empty for ternary and binary (analytic)
};

// Immutable after Open; may be used by any number of threads. Movable: views stay valid.
class Archive {
 public:
  // Maps and validates `path`. NotFound and the like as of MappedFile::Open; DataLoss: a rule of
  // the format is broken; Unimplemented: the older Needle 2 layout, or a speech archive. Messages
  // start with the path and name the field or record (index and canonical name), the value found
  // and the value wanted.
  static absl::StatusOr<Archive> Open(const std::string& path);
  // The same for bytes in memory, which the archive then owns; `name` stands for the path in
  // messages.
  static absl::StatusOr<Archive> FromBytes(std::vector<uint8_t> bytes, std::string name);

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const& { return bytes_; }
  std::span<const uint8_t> bytes() && = delete;
  const Header& header() const { return header_; }
  const Geometry& geometry() const { return header_.geometry; }
  const Schema& schema() const { return schema_; }
  // One for each of schema().tensors(), in the same order.
  const std::vector<Record>& records() const { return records_; }
  // All 28 values as in the file; empty when codebook_len is 0.
  std::span<const float> codebooks() const& { return codebooks_; }
  std::span<const float> codebooks() && = delete;
  // Those of one width, in ascending order; empty for ternary and binary.
  std::span<const float> CodebookOf(Width width) const&;
  std::span<const float> CodebookOf(Width width) && = delete;

  // `position` < records().size().
  std::span<const uint8_t> Blob(size_t position) const&;
  std::span<const uint8_t> Blob(size_t position) && = delete;
  // The record at `position` must be CQ.
  CqView Cq(size_t position) const&;
  CqView Cq(size_t position) && = delete;
  // Values of an FP16 or FP32 record in f32, exact.
  std::vector<float> Floats(size_t position) const;
  // The attachment's bytes, or nothing.
  std::optional<std::span<const uint8_t>> Tokenizer() const&;
  std::optional<std::span<const uint8_t>> Tokenizer() && = delete;

 private:
  Archive() = default;
  static absl::StatusOr<Archive> Parse(Archive archive);
  absl::Status ParseParts();

  std::string path_;
  std::optional<base::MappedFile> mapped_;
  std::vector<uint8_t> owned_;
  std::span<const uint8_t> bytes_;
  Header header_;
  Schema schema_;
  std::vector<Record> records_;
  std::vector<float> codebooks_;
};

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_ARCHIVE_H_
