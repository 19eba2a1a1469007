// converter/npy_header.h: the header of a NumPy array file (.npy), versions 1 to 3.
#ifndef NEEDLE_CONVERTER_NPY_HEADER_H_
#define NEEDLE_CONVERTER_NPY_HEADER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "quant/transpose.h"

namespace needle::converter {

// NumPy's name of an element type, "<f4", taken apart.
struct NpyType {
  std::optional<quant::SourceType> type;  // nothing for integers and the like
  uint64_t bytes = 0;                     // of an element
  bool big_endian = false;
};

// DataLoss: a type whose size is not in its name (structures, objects).
absl::StatusOr<NpyType> ParseNpyType(std::string_view name);

struct NpyHeader {
  std::string type_name;
  NpyType type;
  bool fortran_order = false;
  std::vector<uint64_t> shape;
  uint64_t data_offset = 0;  // from the start of the file
};

// Bytes from the start of a file that hold its header, read off the first kNpyPreambleBytes of it.
// DataLoss: not a .npy file, or of another version.
inline constexpr uint64_t kNpyPreambleBytes = 12;
absl::StatusOr<uint64_t> NpyHeaderBytes(std::span<const uint8_t> preamble);

// Reads a header from its NpyHeaderBytes bytes. DataLoss: not a header.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const uint8_t> bytes);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_NPY_HEADER_H_
