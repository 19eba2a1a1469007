// format/archive_writer.h: writes a laid-out archive, blob by blob, into an atomic file.
#ifndef NEEDLE_FORMAT_ARCHIVE_WRITER_H_
#define NEEDLE_FORMAT_ARCHIVE_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "format/record.h"

namespace needle::format {

class ArchiveWriter {
 public:
  // Opens the temporary sibling of `target` and writes header, codebooks
  // (layout.header.codebook_len values, or Internal) and directory. Errors as of AtomicFile.
  static absl::StatusOr<ArchiveWriter> Create(const std::string& target, ArchiveLayout layout,
                                              std::span<const float> codebooks);

  const ArchiveLayout& layout() const { return layout_; }

  // Writes the whole blob of the record at `position`; each position once, in any order. Internal
  // when the size is not the record's. Callers may write different positions from different threads
  // at once.
  absl::Status WriteBlob(size_t position, std::span<const uint8_t> blob);
  // Writes part of a blob at `offset` from the blob's start, from any thread. The caller covers
  // every byte once. Internal when the part does not lie inside the blob.
  absl::Status WriteBlobPart(size_t position, uint64_t offset, std::span<const uint8_t> bytes);

  // Internal when a blob has not been covered in full; then syncs and renames. Nothing may be
  // called afterwards.
  absl::Status Finish();

 private:
  ArchiveWriter(base::AtomicFile file, ArchiveLayout layout);
  absl::Status CoverageError(size_t position, uint64_t found) const;

  base::AtomicFile file_;
  ArchiveLayout layout_;
  std::vector<uint64_t> written_;  // bytes of each blob so far; updated atomically
};

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_ARCHIVE_WRITER_H_
