#include "format/archive.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "format/archive_rules.h"
#include "format/head_shapes.h"

namespace needle::format {
namespace {

absl::Status TensorCountError(const Header& header, std::string_view wanted) {
  return absl::DataLossError(
      absl::StrFormat("num_tensors: %d, want %s", header.num_tensors, wanted));
}

// The schema that geometry and directory agree on. One record may follow the heads: the tokenizer.
absl::StatusOr<Schema> DeriveSchema(std::span<const uint8_t> file, const Header& header) {
  ASSIGN_OR_RETURN(const Schema body, Schema::Make(header.geometry, {}, false));
  const size_t first_head = body.tensors().size();
  if (header.num_tensors < first_head) {
    return TensorCountError(header, absl::StrFormat("at least %d", first_head));
  }
  ASSIGN_OR_RETURN(DerivedHeads heads, DeriveHeadShapes(file, header, first_head));
  const bool has_tokenizer = header.num_tensors == heads.end + 1;
  if (!has_tokenizer && header.num_tensors != heads.end) {
    return TensorCountError(
        header, absl::StrFormat("%d, or %d with a tokenizer", heads.end, heads.end + 1));
  }
  auto schema = Schema::Make(header.geometry, std::move(heads.shapes), has_tokenizer);
  if (!schema.ok()) return absl::DataLossError(schema.status().message());
  return schema;
}

absl::StatusOr<std::vector<Record>> ReadRecords(std::span<const uint8_t> file, const Header& header,
                                                const Schema& schema) {
  std::vector<Record> records;
  records.reserve(schema.tensors().size());
  for (const TensorSpec& spec : schema.tensors()) {
    const size_t position = records.size();
    const Record record = RecordAt(file, header, position);
    RETURN_IF_ERROR(CheckRecord(file, position, spec, record));
    records.push_back(record);
  }
  return records;
}

std::vector<float> ReadCodebooks(std::span<const uint8_t> file, const Header& header) {
  std::vector<float> codebooks(header.codebook_len);
  const size_t start = HeaderBytes(header.geometry.generation);
  for (size_t i = 0; i < codebooks.size(); ++i) {
    codebooks[i] = base::LoadLe<float>(&file[start + i * sizeof(float)]);
  }
  return codebooks;
}

}  // namespace

absl::StatusOr<Archive> Archive::Open(const std::string& path) {
  Archive archive;
  archive.path_ = path;
  ASSIGN_OR_RETURN(archive.mapped_, base::MappedFile::Open(path));
  archive.bytes_ = archive.mapped_->bytes();
  return Parse(std::move(archive));
}

absl::StatusOr<Archive> Archive::FromBytes(std::vector<uint8_t> bytes, std::string name) {
  Archive archive;
  archive.path_ = std::move(name);
  archive.owned_ = std::move(bytes);
  archive.bytes_ = archive.owned_;
  return Parse(std::move(archive));
}

absl::StatusOr<Archive> Archive::Parse(Archive archive) {
  const absl::Status status = archive.ParseParts();
  if (!status.ok()) return base::WithContext(status, archive.path_);
  return archive;
}

absl::Status Archive::ParseParts() {
  ASSIGN_OR_RETURN(header_, ParseHeader(bytes_));
  RETURN_IF_ERROR(CheckFileHoldsDirectory(bytes_, header_));
  ASSIGN_OR_RETURN(schema_, DeriveSchema(bytes_, header_));
  ASSIGN_OR_RETURN(records_, ReadRecords(bytes_, header_, schema_));
  codebooks_ = ReadCodebooks(bytes_, header_);
  return CheckParts({bytes_, header_, schema_, records_, codebooks_});
}

std::span<const float> Archive::CodebookOf(Width width) const& {
  if (header_.codebook_len != kCodebookLength) return {};
  const std::span<const float> all = codebooks_;
  switch (width) {
    case Width::kCq2:
      return all.subspan(0, 4);
    case Width::kCq3:
      return all.subspan(4, 8);
    case Width::kCq4:
      return all.subspan(12, 16);
    case Width::kBinary:
    case Width::kTernary:
      return {};
  }
  return {};
}

std::span<const uint8_t> Archive::Blob(size_t position) const& {
  const Record& record = records_[position];
  return bytes_.subspan(record.offset, record.num_bytes);
}

CqView Archive::Cq(size_t position) const& {
  const Record& record = records_[position];
  const auto width = WidthFromRecordBits(record.bits);
  assert(width.has_value());  // The caller's promise that the record is CQ.
  const auto layout = CqLayout::Make(record.shape[0], record.shape[1], record.group, *width);
  assert(layout.ok());  // By the rules that Open checked.
  const std::span<const uint8_t> blob = Blob(position);
  return {.width = *width,
          .group = record.group,
          .layout = *layout,
          .indices = blob.first(layout->norms_offset),
          .norms = blob.subspan(layout->norms_offset),
          .codebook = CodebookOf(*width)};
}

std::vector<float> Archive::Floats(size_t position) const {
  const uint8_t* const blob = Blob(position).data();
  const bool is_f32 = schema_.tensors()[position].dtype == DType::kF32;
  std::vector<float> values(Blob(position).size() / (is_f32 ? sizeof(float) : sizeof(uint16_t)));
  if (is_f32) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = base::LoadLe<float>(blob + i * sizeof(float));
    }
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = base::F32FromF16(base::LoadLe<uint16_t>(blob + i * sizeof(uint16_t)));
  }
  return values;
}

std::optional<std::span<const uint8_t>> Archive::Tokenizer() const& {
  if (!schema_.has_tokenizer()) return std::nullopt;
  return Blob(records_.size() - 1);
}

}  // namespace needle::format
