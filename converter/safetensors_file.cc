#include "converter/safetensors_file.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace needle::converter {
namespace {

constexpr uint64_t kLengthBytes = 8;
// Headers of real checkpoints have some kilobytes; the bound keeps a damaged length from costing
// memory.
constexpr uint64_t kMaxJsonHeaderBytes = uint64_t{16} << 20;

struct TypeRow {
  std::string_view name;
  uint64_t bytes;
  std::optional<quant::SourceType> type;
};

constexpr std::array<TypeRow, 15> kTypes = {{
    {"F32", 4, quant::SourceType::kF32},
    {"F16", 2, quant::SourceType::kF16},
    {"BF16", 2, quant::SourceType::kBf16},
    {"F64", 8, quant::SourceType::kF64},
    {"BOOL", 1, std::nullopt},
    {"U8", 1, std::nullopt},
    {"I8", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},
    {"F8_E4M3", 1, std::nullopt},
    {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt},
    {"I32", 4, std::nullopt},
    {"U32", 4, std::nullopt},
    {"I64", 8, std::nullopt},
    {"U64", 8, std::nullopt},
}};

absl::Status TensorError(const std::string& name, const std::string& what) {
  return absl::DataLossError(absl::StrFormat("tensor \"%s\": %s", name, what));
}

absl::StatusOr<std::vector<uint64_t>> ParseNumbers(const std::string& name, const base::Json& entry,
                                                   const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_array()) {
    return TensorError(name, absl::StrCat("no list \"", key, "\""));
  }
  std::vector<uint64_t> numbers;
  for (const base::Json& value : *found) {
    if (!value.is_number_unsigned()) {
      return TensorError(name, absl::StrCat(key, " holds ", base::DumpJson(value),
                                            ", want whole numbers from 0 on"));
    }
    numbers.push_back(value.get<uint64_t>());
  }
  return numbers;
}

absl::StatusOr<const TypeRow*> ParseType(const std::string& name, const base::Json& entry) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) return TensorError(name, "no string \"dtype\"");
  const auto& text = found->get_ref<const std::string&>();
  const auto* row = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const TypeRow& type) { return type.name == text; });
  if (row == kTypes.end()) {
    return TensorError(name, absl::StrCat("dtype ", text, " is none of the format's"));
  }
  return row;
}

struct Entry {
  Leaf leaf;
  SafetensorsHeader::Range range;  // from the start of the data
};

absl::StatusOr<Entry> ParseEntry(const std::string& name, const base::Json& json,
                                 uint64_t data_bytes) {
  if (!json.is_object()) return TensorError(name, "its entry is not an object");
  ASSIGN_OR_RETURN(const TypeRow* type, ParseType(name, json));
  ASSIGN_OR_RETURN(std::vector<uint64_t> shape, ParseNumbers(name, json, "shape"));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets, ParseNumbers(name, json, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return TensorError(name, absl::StrCat("data_offsets ", LeafShapeText(offsets),
                                          ", want [begin, end] with begin <= end"));
  }
  if (offsets[1] > data_bytes) {
    return TensorError(name, absl::StrFormat("ends at byte %d of the data, the file has %d (is it "
                                             "cut short?)",
                                             offsets[1], data_bytes));
  }
  const auto count = NumLeafValues(shape);
  const auto want = count ? base::CheckedMul(*count, type->bytes) : std::nullopt;
  if (!want || *want != offsets[1] - offsets[0]) {
    return TensorError(name, absl::StrFormat("%d bytes, want %s for %s %s", offsets[1] - offsets[0],
                                             want ? absl::StrCat(*want) : "more than 2^64",
                                             std::string(type->name), LeafShapeText(shape)));
  }
  return Entry{{name, type->type, std::string(type->name), std::move(shape)},
               {offsets[0], offsets[1] - offsets[0]}};
}

// Every byte of the data belongs to one tensor.
absl::Status CheckCover(const std::vector<Entry>& entries, uint64_t data_bytes) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->range.offset, a->range.size) < std::pair(b->range.offset, b->range.size);
  });
  uint64_t end = 0;
  for (const Entry* entry : order) {
    if (entry->range.offset != end) {
      return TensorError(
          entry->leaf.name,
          absl::StrFormat(
              "begins at byte %d of the data, want %d: %s", entry->range.offset, end,
              entry->range.offset < end ? "tensors overlap" : "bytes belong to no tensor"));
    }
    end += entry->range.size;
  }
  if (end != data_bytes) {
    return absl::DataLossError(
        absl::StrFormat("%d bytes behind the last tensor", data_bytes - end));
  }
  return absl::OkStatus();
}

absl::Status ParseMetadata(const base::Json& json, SafetensorsHeader& header) {
  if (!json.is_object()) return absl::DataLossError("__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return absl::DataLossError(absl::StrFormat("__metadata__ \"%s\" is not a string", key));
    }
    header.metadata[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> HeaderText(std::span<const uint8_t> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    return absl::DataLossError(
        "a Git LFS pointer, not the file itself: fetch it with git lfs pull");
  }
  if (file.size() < kLengthBytes) {
    return absl::DataLossError(
        absl::StrFormat("%d bytes, too few for a safetensors header", file.size()));
  }
  const auto length = base::LoadLe<uint64_t>(file.data());
  if (length < 2 || length > kMaxJsonHeaderBytes || length > file.size() - kLengthBytes) {
    return absl::DataLossError(
        absl::StrFormat("header length %d, want 2 to %d (not a safetensors file, or cut short)",
                        length, std::min(kMaxJsonHeaderBytes, file.size() - kLengthBytes)));
  }
  return text.substr(kLengthBytes, length);
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensors(std::span<const uint8_t> file) {
  ASSIGN_OR_RETURN(const std::string_view text, HeaderText(file));
  auto json = base::ParseJson(text, 4);
  if (!json.ok()) return base::WithContext(json.status(), "safetensors header");
  if (!json->is_object()) return absl::DataLossError("safetensors header: not an object");

  SafetensorsHeader header;
  const uint64_t data_start = kLengthBytes + text.size();
  const uint64_t data_bytes = file.size() - data_start;
  std::vector<Entry> entries;
  for (const auto& [name, value] : json->items()) {
    if (name == "__metadata__") {
      RETURN_IF_ERROR(ParseMetadata(value, header));
      continue;
    }
    ASSIGN_OR_RETURN(Entry entry, ParseEntry(name, value, data_bytes));
    entries.push_back(std::move(entry));
  }
  RETURN_IF_ERROR(CheckCover(entries, data_bytes));
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.leaf.name < b.leaf.name; });
  for (Entry& entry : entries) {
    header.leaves.push_back(std::move(entry.leaf));
    header.ranges.push_back({data_start + entry.range.offset, entry.range.size});
  }
  return header;
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(base::MappedFile file, base::MappedFile::Open(path));
  auto header = ParseSafetensors(file.bytes());
  if (!header.ok()) return base::WithContext(header.status(), path);
  return std::unique_ptr<SafetensorsFile>(new SafetensorsFile(std::move(file), *std::move(header)));
}

absl::StatusOr<LeafData> SafetensorsFile::Data(size_t index) const {
  const SafetensorsHeader::Range& range = header_.ranges[index];
  LeafData data;
  data.bytes = file_.bytes().subspan(range.offset, range.size);
  return data;
}

absl::StatusOr<std::optional<base::Json>> SafetensorsFile::Metadata(std::string_view key) const {
  const auto text = header_.metadata.find(key);
  if (text == header_.metadata.end()) return std::nullopt;
  auto json = base::ParseJson(text->second);
  if (json.ok()) return *std::move(json);
  return base::WithContext(json.status(),
                           absl::StrCat(file_.path(), ": metadata \"", std::string(key), "\""));
}

}  // namespace needle::converter
