// converter/verify/exact_check.h: tensors that an archive keeps in FP16 or FP32, against floats.
// Specification: "Tree -> archive".
#ifndef NEEDLE_CONVERTER_VERIFY_EXACT_CHECK_H_
#define NEEDLE_CONVERTER_VERIFY_EXACT_CHECK_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "converter/verify/tensor_report.h"
#include "converter/verify/tensor_work.h"
#include "format/archive.h"

namespace needle::verify {

// What comparing values gave; a group is a run of 128 values of a row.
struct ExactTally {
  uint64_t groups = 0;
  uint64_t bad_groups = 0;  // with a value that is not the wanted one
  double squared_error = 0;
  double squared_values = 0;
  WorstGroup worst;
  std::vector<std::string> texts;  // of the first few bad groups

  // `next`: of the rows that follow.
  void Add(const ExactTally& next);
};

// The rows of `range`, FP16 or FP32 in `archive`, against `wanted`: the source rounded to nearest
// even in FP16, and as it is in FP32, bit for bit.
void CheckExact(const format::Archive& archive, const RowRange& range,
                std::span<const float> wanted, ExactTally& tally);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_EXACT_CHECK_H_
