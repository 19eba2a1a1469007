// format/archive_rules.h: "What makes a file invalid", a function a rule. CheckGeometry (in
// geometry.h) and TokenizerTable::Parse hold the rules of the geometry and of the tokenizer. All
// return DataLoss naming the field or record, the value found and the value wanted.
#ifndef NEEDLE_FORMAT_ARCHIVE_RULES_H_
#define NEEDLE_FORMAT_ARCHIVE_RULES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "format/header.h"
#include "format/record.h"
#include "format/schema.h"

namespace needle::format {

// "record 8 (layer00.q_norm): what"
absl::Status RecordError(size_t position, std::string_view name, std::string_view what);

// Header, codebooks and directory lie inside the file.
absl::Status CheckFileHoldsDirectory(std::span<const uint8_t> file, const Header& header);

// A record against the specification's rules for any record, then against what its position holds.
// Afterwards the blob may be read.
absl::Status CheckRecord(std::span<const uint8_t> file, size_t position, const TensorSpec& spec,
                         const Record& record);

// What the parts of an archive must hold, its records having passed CheckRecord.
struct ArchiveParts {
  std::span<const uint8_t> file;
  const Header& header;
  const Schema& schema;
  const std::vector<Record>& records;
  std::span<const float> codebooks;
};

// The rules for the file as a whole, in the specification's order.
absl::Status CheckParts(const ArchiveParts& parts);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_ARCHIVE_RULES_H_
