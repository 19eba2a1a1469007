// converter/verify/golden_file.h: an archive's tensors decoded to f32, under their canonical names,
// for those who write runtimes.
#ifndef NEEDLE_CONVERTER_VERIFY_GOLDEN_FILE_H_
#define NEEDLE_CONVERTER_VERIFY_GOLDEN_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/verify/named_tensors.h"
#include "format/archive.h"

namespace needle::verify {

// All values of the tensor at `position` (not the tokenizer), row-major in the schema's shape: CQ
// decoded without padding, FP16 and FP32 exact. InvalidArgument: the tokenizer or past the end.
absl::StatusOr<std::vector<float>> DecodeTensor(const format::Archive& archive, size_t position);

struct GoldenReport {
  size_t num_tensors = 0;
  uint64_t num_values = 0;
};

// Writes every tensor of `archive` but the tokenizer, in file order, as F32 to a .safetensors or
// .npz file. Errors as of TensorFileWriter; InvalidArgument when `target` is the archive itself.
absl::StatusOr<GoldenReport> WriteGolden(const format::Archive& archive, const std::string& target);

// Opens golden tensors: an .npz or .safetensors file, or the decoded tensors of a .cact. Errors as
// of converter::OpenLeafContainer or format::Archive::Open.
absl::StatusOr<std::unique_ptr<NamedTensors>> OpenGolden(const std::string& path);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_GOLDEN_FILE_H_
