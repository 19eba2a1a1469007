// converter/verify/tensor_file_writer.h: named arrays written one after another into a
// .safetensors, .npz or .npy file. Members of an .npz are stored uncompressed, without time stamps,
// so the same arrays give the same bytes.
#ifndef NEEDLE_CONVERTER_VERIFY_TENSOR_FILE_WRITER_H_
#define NEEDLE_CONVERTER_VERIFY_TENSOR_FILE_WRITER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace needle::verify {

enum class ArrayType : uint8_t { kF32, kF16, kU32, kU8 };
uint64_t ArrayTypeBytes(ArrayType type);
// As in .safetensors: "F32", "F16", "U32", "U8".
std::string ArrayTypeName(ArrayType type);

struct ArraySpec {
  std::string name;
  ArrayType type = ArrayType::kF32;
  std::vector<uint64_t> shape;  // row-major
};

// The bytes of an array as a writer takes them.
template <typename T>
std::span<const uint8_t> BytesOf(std::span<const T> values) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  return {static_cast<const uint8_t*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

// The header of a version 1.0 .npy file, padded to a multiple of 64 bytes.
std::string NpyHeader(const ArraySpec& array);

class TensorFileWriter {
 public:
  // The form follows from the target's ending. All arrays are told beforehand; their names are
  // unique. InvalidArgument: another ending, a .npy of more than one array, a size past what 64
  // bits hold; errors as of AtomicFile.
  static absl::StatusOr<std::unique_ptr<TensorFileWriter>> Create(const std::string& target,
                                                                  std::vector<ArraySpec> arrays);
  virtual ~TensorFileWriter() = default;

  // The next array's values, little-endian. InvalidArgument when the size is not the array's.
  virtual absl::Status Write(std::span<const uint8_t> bytes) = 0;
  // Internal when an array is missing; then syncs and renames into place.
  virtual absl::Status Finish() = 0;
};

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_TENSOR_FILE_WRITER_H_
