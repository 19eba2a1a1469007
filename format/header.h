// format/header.h: the fixed-size header of both generations and the codebooks behind it, from one
// table of fields. Specification: "Tags", "Needle 3 header", "Needle 2 header", "Codebooks".
#ifndef NEEDLE_FORMAT_HEADER_H_
#define NEEDLE_FORMAT_HEADER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/geometry.h"

namespace needle::format {

inline constexpr uint32_t kTagNeedle3 = 0x05E12A84;
inline constexpr uint32_t kTagNeedle2 = 0x05E12A83;
inline constexpr uint32_t kTagNeedle2Old = 0x05E12A82;
inline constexpr uint32_t kCodebookLength = 28;  // cb2[4] | cb3[8] | cb4[16]

// One 4-byte field of a header. Array fields (engram_orders, engram_sites) have a row per element.
struct HeaderField {
  std::string_view name;  // as in the specification, e.g. "engram_sites[3]"
  uint32_t byte;          // offset from the start of the file
  bool is_f32;
};

// The fields in file order: 49 for Needle 3, 30 for Needle 2.
std::span<const HeaderField> HeaderFields(Generation generation);
uint32_t HeaderBytes(Generation generation);

struct Header {
  Geometry geometry;
  uint32_t num_tensors = 0;
  uint32_t codebook_len = kCodebookLength;
};

// Whether `bytes` begin as an archive's do, also an older package's.
bool HasArchiveTag(std::span<const uint8_t> bytes);

// Reads the header of a whole archive's `bytes` and checks its fields (CheckGeometry, unused array
// entries are zero). DataLoss: not an archive (with the tag read) or a field that cannot be.
// Unimplemented: the older Needle 2 layout.
absl::StatusOr<Header> ParseHeader(std::span<const uint8_t> bytes);

// The header's bytes, HeaderBytes(generation) long. `header` must be one that ParseHeader would
// accept.
std::vector<uint8_t> SerializeHeader(const Header& header);

// The value of each field in file order as text, for inspect, diff and error messages.
std::vector<std::string> HeaderValues(const Header& header);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_HEADER_H_
