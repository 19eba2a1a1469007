#include "format/archive_writer.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/status_macros.h"

namespace needle::format {
namespace {

// What stands before the blobs.
std::vector<uint8_t> FrontBytes(const ArchiveLayout& layout, std::span<const float> codebooks) {
  std::vector<uint8_t> bytes = SerializeHeader(layout.header);
  size_t place = bytes.size();
  bytes.resize(layout.DirectoryEnd());
  for (const float value : codebooks) {
    base::StoreLe(&bytes[place], value);
    place += sizeof(value);
  }
  for (const Record& record : layout.records) {
    SerializeRecord(record, std::span(bytes).subspan(place).first<kRecordBytes>());
    place += kRecordBytes;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<ArchiveWriter> ArchiveWriter::Create(const std::string& target, ArchiveLayout layout,
                                                    std::span<const float> codebooks) {
  if (codebooks.size() != layout.header.codebook_len) {
    return absl::InternalError(absl::StrFormat("%s: %d codebook values, want %d", target,
                                               codebooks.size(), layout.header.codebook_len));
  }
  ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(target));
  RETURN_IF_ERROR(file.Resize(layout.file_bytes));
  RETURN_IF_ERROR(file.WriteAt(0, FrontBytes(layout, codebooks)));
  return ArchiveWriter(std::move(file), std::move(layout));
}

ArchiveWriter::ArchiveWriter(base::AtomicFile file, ArchiveLayout layout)
    : file_(std::move(file)), layout_(std::move(layout)), written_(layout_.records.size(), 0) {}

absl::Status ArchiveWriter::WriteBlob(size_t position, std::span<const uint8_t> blob) {
  if (blob.size() != layout_.records[position].num_bytes) {
    return CoverageError(position, blob.size());
  }
  return WriteBlobPart(position, 0, blob);
}

absl::Status ArchiveWriter::WriteBlobPart(size_t position, uint64_t offset,
                                          std::span<const uint8_t> bytes) {
  const Record& record = layout_.records[position];
  if (offset > record.num_bytes || bytes.size() > record.num_bytes - offset) {
    return CoverageError(position, offset + bytes.size());
  }
  RETURN_IF_ERROR(file_.WriteAt(record.offset + offset, bytes));
  std::atomic_ref(written_[position]).fetch_add(bytes.size(), std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status ArchiveWriter::Finish() {
  for (size_t i = 0; i < written_.size(); ++i) {
    if (written_[i] != layout_.records[i].num_bytes) return CoverageError(i, written_[i]);
  }
  return file_.Commit();
}

absl::Status ArchiveWriter::CoverageError(size_t position, uint64_t found) const {
  return absl::InternalError(absl::StrFormat(
      "%s: record %d (%s): %d bytes written, want %d", file_.target(), position,
      layout_.schema.tensors()[position].name, found, layout_.records[position].num_bytes));
}

}  // namespace needle::format
