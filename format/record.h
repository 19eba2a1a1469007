// format/record.h: the directory. Specification: "Directory record: 44 bytes", "CQ blob".
#ifndef NEEDLE_FORMAT_RECORD_H_
#define NEEDLE_FORMAT_RECORD_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "format/header.h"
#include "format/schema.h"
#include "format/width.h"

namespace needle::format {

inline constexpr uint64_t kRecordBytes = 44;
inline constexpr uint64_t kBlobAlignment = 64;

// A record as it stands in the file; parsing it checks nothing.
struct Record {
  uint8_t dtype = 0;
  uint8_t ndim = 0;
  uint16_t reserved = 0;
  std::array<uint32_t, 4> shape = {0, 0, 0, 0};
  uint64_t offset = 0;
  uint64_t num_bytes = 0;
  uint32_t group = 0;
  uint32_t bits = 0;
  friend bool operator==(const Record&, const Record&) = default;
};

Record ParseRecord(std::span<const uint8_t, kRecordBytes> bytes);
void SerializeRecord(const Record& record, std::span<uint8_t, kRecordBytes> bytes);

// Bytes of a blob: of a spec, at `width` in groups of `group` when it is CQ. RAW is not covered
// (its size is its own). InvalidArgument when the size does not fit in 64 bits.
absl::StatusOr<uint64_t> BlobBytes(const TensorSpec& spec, Width width, uint32_t group = kGroup);

// Offset of the first byte behind the directory of a file with this header.
uint64_t DirectoryEnd(const Header& header);
// The record at `position` of the directory, which must lie inside `file`.
Record RecordAt(std::span<const uint8_t> file, const Header& header, size_t position);

// How a CQ tensor is stored.
struct CqFormat {
  Width width = Width::kCq2;
  uint32_t group = kGroup;
};

// Where everything of an archive will lie, before anything is written.
struct ArchiveLayout {
  Header header;
  Schema schema;
  std::vector<Record> records;  // one for each of schema.tensors()
  uint64_t file_bytes = 0;

  // `widths`: one for each tensor of the schema; read for CQ tensors only. `tokenizer_bytes`: size
  // of the attachment (read when the schema has one). InvalidArgument when a size does not fit in
  // 64 bits.
  static absl::StatusOr<ArchiveLayout> Make(const Geometry& geometry, const Schema& schema,
                                            std::span<const Width> widths,
                                            uint64_t tokenizer_bytes);
  // The same for an archive that need not look as those written here: of `header`, geometry and
  // codebook_len are read, and groups may be of any size.
  static absl::StatusOr<ArchiveLayout> Make(const Header& header, const Schema& schema,
                                            std::span<const CqFormat> formats,
                                            uint64_t tokenizer_bytes);

  // Offset of the first byte behind the directory.
  uint64_t DirectoryEnd() const { return format::DirectoryEnd(header); }
};

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_RECORD_H_
