#include "format/record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/status_macros.h"

namespace needle::format {
namespace {

absl::Status TooLarge() { return absl::InvalidArgumentError("the size does not fit in 64 bits"); }

// The record of a tensor whose blob is the first from byte `end` on; `raw_bytes`: its size when it
// is RAW.
absl::StatusOr<Record> PlaceRecord(const TensorSpec& spec, const CqFormat& format,
                                   uint64_t raw_bytes, uint64_t end) {
  Record record;
  record.dtype = static_cast<uint8_t>(spec.dtype);
  record.ndim = static_cast<uint8_t>(spec.shape.size());
  std::copy(spec.shape.begin(), spec.shape.end(), record.shape.begin());
  if (spec.dtype == DType::kCq) {
    record.group = format.group;
    record.bits = static_cast<uint32_t>(format.width);
  }
  record.num_bytes = raw_bytes;
  if (spec.dtype != DType::kRaw) {
    ASSIGN_OR_RETURN(record.num_bytes, BlobBytes(spec, format.width, format.group));
  }
  const auto offset = base::CheckedRoundUp(end, kBlobAlignment);
  if (!offset || !base::CheckedAdd(*offset, record.num_bytes)) return TooLarge();
  record.offset = *offset;
  return record;
}

uint64_t DirectoryStart(const Header& header) {
  return HeaderBytes(header.geometry.generation) + uint64_t{header.codebook_len} * sizeof(float);
}

}  // namespace

Record ParseRecord(std::span<const uint8_t, kRecordBytes> bytes) {
  Record record;
  record.dtype = bytes[0];
  record.ndim = bytes[1];
  record.reserved = base::LoadLe<uint16_t>(&bytes[2]);
  for (size_t i = 0; i < record.shape.size(); ++i) {
    record.shape[i] = base::LoadLe<uint32_t>(&bytes[4 + 4 * i]);
  }
  record.offset = base::LoadLe<uint64_t>(&bytes[20]);
  record.num_bytes = base::LoadLe<uint64_t>(&bytes[28]);
  record.group = base::LoadLe<uint32_t>(&bytes[36]);
  record.bits = base::LoadLe<uint32_t>(&bytes[40]);
  return record;
}

void SerializeRecord(const Record& record, std::span<uint8_t, kRecordBytes> bytes) {
  bytes[0] = record.dtype;
  bytes[1] = record.ndim;
  base::StoreLe(&bytes[2], record.reserved);
  for (size_t i = 0; i < record.shape.size(); ++i) {
    base::StoreLe(&bytes[4 + 4 * i], record.shape[i]);
  }
  base::StoreLe(&bytes[20], record.offset);
  base::StoreLe(&bytes[28], record.num_bytes);
  base::StoreLe(&bytes[36], record.group);
  base::StoreLe(&bytes[40], record.bits);
}

absl::StatusOr<uint64_t> BlobBytes(const TensorSpec& spec, Width width, uint32_t group) {
  if (spec.dtype == DType::kCq) {
    ASSIGN_OR_RETURN(const CqLayout layout,
                     CqLayout::Make(spec.shape[0], spec.shape[1], group, width));
    return layout.num_bytes;
  }
  const uint64_t value_bytes = spec.dtype == DType::kF32 ? 4 : 2;
  const auto values = NumValues(spec.shape);
  const auto bytes = values ? base::CheckedMul(*values, value_bytes) : std::nullopt;
  if (!bytes) return TooLarge();
  return *bytes;
}

uint64_t DirectoryEnd(const Header& header) {
  return DirectoryStart(header) + header.num_tensors * kRecordBytes;
}

Record RecordAt(std::span<const uint8_t> file, const Header& header, size_t position) {
  const uint64_t offset = DirectoryStart(header) + position * kRecordBytes;
  return ParseRecord(file.subspan(offset).first<kRecordBytes>());
}

absl::StatusOr<ArchiveLayout> ArchiveLayout::Make(const Geometry& geometry, const Schema& schema,
                                                  std::span<const Width> widths,
                                                  uint64_t tokenizer_bytes) {
  std::vector<CqFormat> formats;
  formats.reserve(widths.size());
  for (const Width width : widths) formats.push_back({width, kGroup});
  return Make(Header{.geometry = geometry}, schema, formats, tokenizer_bytes);
}

absl::StatusOr<ArchiveLayout> ArchiveLayout::Make(const Header& header, const Schema& schema,
                                                  std::span<const CqFormat> formats,
                                                  uint64_t tokenizer_bytes) {
  const auto& tensors = schema.tensors();
  if (formats.size() != tensors.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d widths for %d tensors", formats.size(), tensors.size()));
  }
  ArchiveLayout layout = {.header = header, .schema = schema, .records = {}, .file_bytes = 0};
  layout.header.num_tensors = static_cast<uint32_t>(tensors.size());
  layout.records.reserve(tensors.size());
  layout.file_bytes = layout.DirectoryEnd();
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto record = PlaceRecord(tensors[i], formats[i], tokenizer_bytes, layout.file_bytes);
    if (!record.ok()) return base::WithContext(record.status(), tensors[i].name);
    layout.file_bytes = record->offset + record->num_bytes;
    layout.records.push_back(*record);
  }
  return layout;
}

}  // namespace needle::format
