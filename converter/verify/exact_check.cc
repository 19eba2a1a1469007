#include "converter/verify/exact_check.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "format/width.h"

namespace needle::verify {
namespace {

// A stored value and the one that it should be.
struct Pair {
  uint32_t found_bits = 0;
  uint32_t wanted_bits = 0;
  float found = 0;
  float wanted = 0;
};

Pair HalfPair(std::span<const uint8_t> blob, uint64_t index, float wanted) {
  const uint16_t found = base::LoadLe<uint16_t>(&blob[2 * index]);
  const uint16_t rounded = base::F16FromF32(wanted);
  return {found, rounded, base::F32FromF16(found), base::F32FromF16(rounded)};
}

Pair FloatPair(std::span<const uint8_t> blob, uint64_t index, float wanted) {
  const float found = base::LoadLe<float>(&blob[4 * index]);
  return {std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(wanted), found, wanted};
}

double Square(double value) { return value * value; }

// A run of values in one row, starting at `first` of the tensor.
struct Run {
  uint64_t first = 0;
  uint64_t row = 0;
  uint64_t column = 0;
};

void CheckRun(std::span<const uint8_t> blob, bool is_half, const Run& run,
              std::span<const float> wanted, ExactTally& tally) {
  const uint64_t group = run.column / format::kGroup;
  double error = 0;
  double squares = 0;
  bool is_bad = false;
  for (uint64_t i = 0; i < wanted.size(); ++i) {
    const uint64_t index = run.first + i;
    const Pair pair =
        is_half ? HalfPair(blob, index, wanted[i]) : FloatPair(blob, index, wanted[i]);
    error += Square(static_cast<double>(pair.found) - static_cast<double>(wanted[i]));
    squares += Square(static_cast<double>(wanted[i]));
    if (pair.found_bits == pair.wanted_bits) continue;
    if (!is_bad && tally.texts.size() < kListedFailures) {
      tally.texts.push_back(absl::StrFormat(
          "row %d, group %d, column %d: %g (0x%X), want %g (0x%X)", run.row, group, run.column + i,
          pair.found, pair.found_bits, pair.wanted, pair.wanted_bits));
    }
    is_bad = true;
  }
  ++tally.groups;
  tally.bad_groups += is_bad ? 1U : 0U;
  tally.squared_error += error;
  tally.squared_values += squares;
  const double nmse = RelativeError(error, squares);
  KeepWorst({run.row, group, nmse}, tally.worst);
}

}  // namespace

void ExactTally::Add(const ExactTally& next) {
  groups += next.groups;
  bad_groups += next.bad_groups;
  squared_error += next.squared_error;
  squared_values += next.squared_values;
  KeepWorst(next.worst, worst);
  AppendFailures(next.texts, texts);
}

void CheckExact(const format::Archive& archive, const RowRange& range,
                std::span<const float> wanted, ExactTally& tally) {
  const bool is_half = archive.schema().tensors()[range.position].dtype == format::DType::kF16;
  const auto blob = archive.Blob(range.position);
  const uint64_t first = range.first_row * range.cols;
  for (uint64_t begin = 0; begin < wanted.size();) {
    const uint64_t column = begin % range.cols;
    const uint64_t count = std::min<uint64_t>(format::kGroup, range.cols - column);
    const Run run{first + begin, range.first_row + begin / range.cols, column};
    CheckRun(blob, is_half, run, wanted.subspan(begin, count), tally);
    begin += count;
  }
}

}  // namespace needle::verify
