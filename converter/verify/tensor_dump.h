// converter/verify/tensor_dump.h: one tensor of an archive, for looking at it elsewhere.
#ifndef NEEDLE_CONVERTER_VERIFY_TENSOR_DUMP_H_
#define NEEDLE_CONVERTER_VERIFY_TENSOR_DUMP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/verify/tensor_file_writer.h"
#include "format/archive.h"

namespace needle::verify {

enum class DumpPart : uint8_t {
  kValues,   // decoded f32 in the tensor's shape; the tokenizer's bytes
  kIndices,  // u8 codebook positions [rows, padded cols]; ternary 0, 1, 2 for -1, 0, +1
  kNorms,    // f16 [rows, groups]
};

struct DumpedArray {
  ArraySpec spec;
  std::vector<uint8_t> bytes;  // row-major, little-endian
};

// NotFound: no tensor of that canonical name.
// InvalidArgument: indices or norms of a tensor that is not CQ.
absl::StatusOr<DumpedArray> DumpTensor(const format::Archive& archive, const std::string& name,
                                       DumpPart part);

// The array as CSV: the last dimension is a line (a single value a line of its own), numbers as the
// shortest text that reads back to the same value. Calls `write` for each line, with its newline.
void WriteCsv(const DumpedArray& array, const std::function<void(std::string_view)>& write);

// Writes the array to a .npy, .npz, .safetensors or .csv file. Errors as of TensorFileWriter;
// InvalidArgument when `target` is the file `input`.
absl::Status WriteDump(const DumpedArray& array, const std::string& target,
                       const std::string& input);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_TENSOR_DUMP_H_
