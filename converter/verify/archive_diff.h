// converter/verify/archive_diff.h: two archives compared field by field and tensor by tensor.
#ifndef NEEDLE_CONVERTER_VERIFY_ARCHIVE_DIFF_H_
#define NEEDLE_CONVERTER_VERIFY_ARCHIVE_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "format/archive.h"

namespace needle::verify {

enum class DiffVerdict : uint8_t {
  kByteIdentical,
  kSameWeights,  // every header field and decoded weight agrees; the bytes do not
  kDifferent,
};
// "byte-identical", "same weights", "different".
std::string DiffVerdictText(DiffVerdict verdict);

struct ValueDifference {
  std::string name;  // a header field, "codebooks[3]", "piece 17"
  std::string a, b;  // "-" where there is none
};

// A tensor that both archives hold and whose bytes, width or shape differ.
struct TensorDifference {
  std::string name;
  std::string kind_a, kind_b;    // "CQ2", "FP16", ...
  std::string shape_a, shape_b;  // "[4, 256]"
  // Only for CQ tensors of one shape and width.
  std::optional<uint64_t> indices_flipped = {};  // of the stored ones, padding included
  std::optional<uint64_t> norms_changed = {};
  uint64_t largest_norm_step = 0;  // in steps between neighbouring f16 values
  // Only for tensors of one shape: decoded values that differ, and the sum of (b - a)^2 over the
  // sum of a^2 (infinite when a is all zero and b is not).
  std::optional<uint64_t> values_changed = {};
  std::optional<double> nmse = {};
};

struct ArchiveDiff {
  DiffVerdict verdict = DiffVerdict::kDifferent;
  std::vector<ValueDifference> header;     // fields; of two generations only the generation
  std::vector<ValueDifference> codebooks;  // entries
  std::vector<ValueDifference> tokenizer;  // its settings and pieces
  std::vector<TensorDifference> tensors;
  std::vector<std::string> only_in_a, only_in_b;
  uint64_t tensors_compared = 0;

  // Both answer alike: the bytes are the same, or the weights and the tokenizer are.
  bool same_model() const { return verdict != DiffVerdict::kDifferent && tokenizer.empty(); }
};

// Reads all of both. Tensors are matched by canonical name. Errors: only those of decoding.
absl::StatusOr<ArchiveDiff> DiffArchives(const format::Archive& a, const format::Archive& b);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_ARCHIVE_DIFF_H_
