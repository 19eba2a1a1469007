#include "format/archive_rules.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "format/scan.h"
#include "format/tokenizer_table.h"

namespace needle::format {
namespace {

// A record under examination.
struct RecordCheck {
  std::span<const uint8_t> file;
  size_t position;
  const TensorSpec& spec;
  const Record& record;

  absl::Status Error(std::string_view what) const { return RecordError(position, spec.name, what); }
  bool IsCq() const { return record.dtype == static_cast<uint8_t>(DType::kCq); }
  std::vector<uint32_t> Shape() const {
    return {record.shape.begin(), record.shape.begin() + record.ndim};
  }
};

absl::Status CheckDType(const RecordCheck& check) {
  if (check.record.dtype >= 1 && check.record.dtype <= 4) return absl::OkStatus();
  return check.Error(absl::StrFormat("dtype %d, want 1 to 4", check.record.dtype));
}

absl::Status CheckNumDims(const RecordCheck& check) {
  if (check.record.ndim <= check.record.shape.size()) return absl::OkStatus();
  return check.Error(absl::StrFormat("ndim %d, want at most 4", check.record.ndim));
}

absl::Status CheckUnusedFieldsAreZero(const RecordCheck& check) {
  const Record& record = check.record;
  if (record.reserved != 0) {
    return check.Error(absl::StrFormat("bytes 2 and 3 hold %d, want 0", record.reserved));
  }
  for (size_t i = record.ndim; i < record.shape.size(); ++i) {
    if (record.shape[i] != 0) {
      return check.Error(
          absl::StrFormat("shape[%d] %d, want 0, as ndim is %d", i, record.shape[i], record.ndim));
    }
  }
  if (check.IsCq()) return absl::OkStatus();
  if (record.group != 0) {
    return check.Error(absl::StrFormat("group %d, want 0, as it is not CQ", record.group));
  }
  if (record.bits != 0) {
    return check.Error(absl::StrFormat("bits %d, want 0, as it is not CQ", record.bits));
  }
  return absl::OkStatus();
}

absl::Status CheckOffsetAligned(const RecordCheck& check) {
  if (check.record.offset % kBlobAlignment == 0) return absl::OkStatus();
  return check.Error(
      absl::StrFormat("offset %d, want a multiple of %d", check.record.offset, kBlobAlignment));
}

absl::Status CheckBlobInsideFile(const RecordCheck& check) {
  const auto end = base::CheckedAdd(check.record.offset, check.record.num_bytes);
  if (end && *end <= check.file.size()) return absl::OkStatus();
  return check.Error(
      absl::StrFormat("offset %d and nbytes %d, want an end inside the file of %d bytes",
                      check.record.offset, check.record.num_bytes, check.file.size()));
}

absl::Status CheckCqHasTwoDims(const RecordCheck& check) {
  if (!check.IsCq() || check.record.ndim == 2) return absl::OkStatus();
  return check.Error(absl::StrFormat("ndim %d, want 2, as it is CQ", check.record.ndim));
}

absl::Status CheckGroup(const RecordCheck& check) {
  if (!check.IsCq() || std::has_single_bit(check.record.group)) return absl::OkStatus();
  return check.Error(absl::StrFormat("group %d, want a power of two", check.record.group));
}

absl::Status CheckBits(const RecordCheck& check) {
  if (!check.IsCq() || WidthFromRecordBits(check.record.bits)) return absl::OkStatus();
  return check.Error(absl::StrFormat("bits %d, want 1, 2, 3, 4 or 5", check.record.bits));
}

// The rules before this one made `bits` a width.
absl::Status CheckNumBytes(const RecordCheck& check) {
  const Record& record = check.record;
  const auto dtype = static_cast<DType>(record.dtype);
  if (dtype == DType::kRaw) return absl::OkStatus();
  const TensorSpec described = {check.spec.id, check.spec.name, dtype, check.Shape()};
  const auto width = WidthFromRecordBits(record.bits).value_or(Width::kCq2);
  const auto wanted = BlobBytes(described, width, record.group);
  if (!wanted.ok()) return check.Error(base::StdView(wanted.status().message()));
  if (record.num_bytes == *wanted) return absl::OkStatus();
  return check.Error(absl::StrFormat("nbytes %d, want %d for %s %s, group %d, bits %d",
                                     record.num_bytes, *wanted, DTypeName(dtype),
                                     ShapeText(described.shape), record.group, record.bits));
}

absl::Status CheckDTypeOfPosition(const RecordCheck& check) {
  const auto found = static_cast<DType>(check.record.dtype);
  if (found == check.spec.dtype) return absl::OkStatus();
  return check.Error(
      absl::StrFormat("dtype %s, want %s", DTypeName(found), DTypeName(check.spec.dtype)));
}

absl::Status CheckShapeOfPosition(const RecordCheck& check) {
  const std::vector<uint32_t> found = check.Shape();
  if (found == check.spec.shape) return absl::OkStatus();
  return check.Error(
      absl::StrFormat("shape %s, want %s", ShapeText(found), ShapeText(check.spec.shape)));
}

using RecordRule = absl::Status (*)(const RecordCheck&);

// In the specification's order, but for nbytes, which needs the rules of CQ to hold and says less
// than the rules of the position.
constexpr auto kRecordRules = std::to_array<RecordRule>({
    CheckDType,
    CheckNumDims,
    CheckUnusedFieldsAreZero,
    CheckOffsetAligned,
    CheckBlobInsideFile,
    CheckCqHasTwoDims,
    CheckGroup,
    CheckBits,
    CheckDTypeOfPosition,
    CheckShapeOfPosition,
    CheckNumBytes,
});

bool NeedsStoredCodebook(const Record& record) {
  const auto width = WidthFromRecordBits(record.bits);
  return width == Width::kCq2 || width == Width::kCq3 || width == Width::kCq4;
}

absl::Status CheckCodebookLength(const ArchiveParts& parts) {
  if (parts.header.codebook_len == kCodebookLength) return absl::OkStatus();
  const auto cq = std::find_if(parts.records.begin(), parts.records.end(), NeedsStoredCodebook);
  if (cq == parts.records.end()) return absl::OkStatus();
  const auto position = static_cast<size_t>(cq - parts.records.begin());
  return absl::DataLossError(absl::StrFormat("codebook_len: %d, want %d, as record %d (%s) is CQ%d",
                                             parts.header.codebook_len, kCodebookLength, position,
                                             parts.schema.tensors()[position].name, cq->bits));
}

// Blobs follow each other in the order of their records, so none overlaps another.
absl::Status CheckBlobsDoNotOverlap(const ArchiveParts& parts) {
  uint64_t end = DirectoryEnd(parts.header);
  std::string_view before = "the directory";
  for (size_t i = 0; i < parts.records.size(); ++i) {
    const Record& record = parts.records[i];
    const std::string& name = parts.schema.tensors()[i].name;
    if (record.offset < end) {
      return RecordError(i, name,
                         absl::StrFormat("offset %d, want at least %d, the end of %s",
                                         record.offset, end, before));
    }
    end = record.offset + record.num_bytes;
    before = name;
  }
  return absl::OkStatus();
}

absl::Status CheckFirstBlobFollowsDirectory(const ArchiveParts& parts) {
  const uint64_t end = DirectoryEnd(parts.header);
  const uint64_t offset = parts.records[0].offset;
  if (offset - end < kBlobAlignment) return absl::OkStatus();
  return RecordError(
      0, parts.schema.tensors()[0].name,
      absl::StrFormat(
          "offset %d, want the first multiple of %d from the end of the directory, %d, on", offset,
          kBlobAlignment, end));
}

absl::Status CheckGapsAreZero(const ArchiveParts& parts) {
  uint64_t end = DirectoryEnd(parts.header);
  for (size_t i = 0; i < parts.records.size(); ++i) {
    const Record& record = parts.records[i];
    const auto found = FindNonZero(parts.file.subspan(end, record.offset - end));
    if (found) {
      return RecordError(i, parts.schema.tensors()[i].name,
                         absl::StrFormat("byte %d of the gap before it is %d, want 0", end + *found,
                                         parts.file[end + *found]));
    }
    end = record.offset + record.num_bytes;
  }
  return absl::OkStatus();
}

absl::Status CheckFileEndsWithLastBlob(const ArchiveParts& parts) {
  const Record& last = parts.records.back();
  const uint64_t end = last.offset + last.num_bytes;
  if (parts.file.size() == end) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "file size: %d bytes, want %d, the end of the last blob", parts.file.size(), end));
}

absl::Status CheckPermutation(size_t position, const std::string& name,
                              std::span<const uint8_t> blob) {
  const size_t n = blob.size() / sizeof(float);
  std::vector<bool> seen(n, false);
  for (size_t i = 0; i < n; ++i) {
    const auto value = base::LoadLe<float>(&blob[i * sizeof(float)]);
    const bool is_index = value >= 0 && value < static_cast<float>(n) && value == std::floor(value);
    if (!is_index || seen[static_cast<size_t>(value)]) {
      return RecordError(position, name,
                         absl::StrFormat("value %d is %g, want each of 0 to %d once", i,
                                         static_cast<double>(value), n - 1));
    }
    seen[static_cast<size_t>(value)] = true;
  }
  return absl::OkStatus();
}

absl::Status CheckFiniteF16(size_t position, const std::string& name,
                            std::span<const uint8_t> blob) {
  const auto found = FindNonFiniteF16(blob);
  if (!found) return absl::OkStatus();
  const float value = base::F32FromF16(base::LoadLe<uint16_t>(&blob[*found * 2]));
  return RecordError(
      position, name,
      absl::StrFormat("value %d is %g, want a finite number", *found, static_cast<double>(value)));
}

absl::Status CheckFiniteF32(size_t position, const std::string& name,
                            std::span<const uint8_t> blob) {
  const auto found = FindNonFiniteF32(blob);
  if (!found) return absl::OkStatus();
  const auto value = base::LoadLe<float>(&blob[*found * 4]);
  return RecordError(
      position, name,
      absl::StrFormat("value %d is %g, want a finite number", *found, static_cast<double>(value)));
}

absl::Status CheckNorms(size_t position, const std::string& name, const CqLayout& layout,
                        std::span<const uint8_t> blob) {
  const std::span<const uint8_t> norms = blob.subspan(layout.norms_offset);
  const auto found = FindNonFiniteF16(norms);
  if (!found) return absl::OkStatus();
  const float value = base::F32FromF16(base::LoadLe<uint16_t>(&norms[*found * 2]));
  return RecordError(
      position, name,
      absl::StrFormat("the norm of row %d, group %d is %g, want a finite number",
                      *found / layout.groups, *found % layout.groups, static_cast<double>(value)));
}

absl::Status CheckCrumbs(size_t position, const std::string& name, const CqLayout& layout,
                         std::span<const uint8_t> blob) {
  const auto found = FindInvalidCrumb(blob.first(layout.norms_offset));
  if (!found) return absl::OkStatus();
  return RecordError(
      position, name,
      absl::StrFormat("byte %d of row %d is 0x%02X, want ternary crumbs 0, 1 or 3",
                      *found % layout.row_bytes, *found / layout.row_bytes, blob[*found]));
}

absl::Status CheckCq(size_t position, const std::string& name, const Record& record,
                     std::span<const uint8_t> blob) {
  const Width width = *WidthFromRecordBits(record.bits);
  ASSIGN_OR_RETURN(const CqLayout layout,
                   CqLayout::Make(record.shape[0], record.shape[1], record.group, width));
  RETURN_IF_ERROR(CheckNorms(position, name, layout, blob));
  if (width != Width::kTernary) return absl::OkStatus();
  return CheckCrumbs(position, name, layout, blob);
}

absl::Status CheckTokenizer(size_t position, const std::string& name, const Geometry& geometry,
                            std::span<const uint8_t> blob) {
  const auto table = TokenizerTable::Parse(blob, geometry.vocab);
  if (table.ok()) return absl::OkStatus();
  return RecordError(position, name, base::StdView(table.status().message()));
}

absl::Status CheckValues(const ArchiveParts& parts, size_t position) {
  const TensorSpec& spec = parts.schema.tensors()[position];
  const Record& record = parts.records[position];
  const auto blob = parts.file.subspan(record.offset, record.num_bytes);
  switch (spec.dtype) {
    case DType::kF16:
      return CheckFiniteF16(position, spec.name, blob);
    case DType::kF32:
      RETURN_IF_ERROR(CheckFiniteF32(position, spec.name, blob));
      return CheckPermutation(position, spec.name, blob);
    case DType::kCq:
      return CheckCq(position, spec.name, record, blob);
    case DType::kRaw:
      return CheckTokenizer(position, spec.name, parts.header.geometry, blob);
  }
  return absl::OkStatus();
}

absl::Status CheckAllValues(const ArchiveParts& parts) {
  for (size_t i = 0; i < parts.records.size(); ++i) RETURN_IF_ERROR(CheckValues(parts, i));
  return absl::OkStatus();
}

absl::Status CheckCodebooks(const ArchiveParts& parts) {
  if (parts.header.codebook_len != kCodebookLength) return absl::OkStatus();
  for (uint32_t i = 0; i < kCodebookLength; ++i) {
    const float value = parts.codebooks[i];
    const bool opens_a_codebook = i == 0 || i == 4 || i == 12;
    if (std::isfinite(value) && (opens_a_codebook || value > parts.codebooks[i - 1])) continue;
    return absl::DataLossError(
        absl::StrFormat("codebooks: value %d is %.9g, want finite numbers that ascend inside a "
                        "codebook",
                        i, static_cast<double>(value)));
  }
  return absl::OkStatus();
}

using PartsRule = absl::Status (*)(const ArchiveParts&);

constexpr auto kPartsRules = std::to_array<PartsRule>({
    CheckCodebookLength,
    CheckBlobsDoNotOverlap,
    CheckFirstBlobFollowsDirectory,
    CheckGapsAreZero,
    CheckFileEndsWithLastBlob,
    CheckCodebooks,
    CheckAllValues,
});

}  // namespace

absl::Status RecordError(size_t position, std::string_view name, std::string_view what) {
  return absl::DataLossError(absl::StrFormat("record %d (%s): %s", position, name, what));
}

absl::Status CheckFileHoldsDirectory(std::span<const uint8_t> file, const Header& header) {
  const uint64_t wanted = DirectoryEnd(header);
  if (file.size() >= wanted) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "file size: %d bytes, want at least %d for the header, codebook_len %d and num_tensors %d",
      file.size(), wanted, header.codebook_len, header.num_tensors));
}

absl::Status CheckRecord(std::span<const uint8_t> file, size_t position, const TensorSpec& spec,
                         const Record& record) {
  const RecordCheck check = {file, position, spec, record};
  for (const RecordRule rule : kRecordRules) RETURN_IF_ERROR(rule(check));
  return absl::OkStatus();
}

absl::Status CheckParts(const ArchiveParts& parts) {
  for (const PartsRule rule : kPartsRules) RETURN_IF_ERROR(rule(parts));
  return absl::OkStatus();
}

}  // namespace needle::format
