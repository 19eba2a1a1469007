// converter/verify/tensor_report.h: what comparing an archive's tensors gave, as data.
#ifndef NEEDLE_CONVERTER_VERIFY_TENSOR_REPORT_H_
#define NEEDLE_CONVERTER_VERIFY_TENSOR_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/schema.h"
#include "format/width.h"

namespace needle::verify {

enum class Match : uint8_t {
  kIdentical,  // every bit is the expected one
  kTies,       // plain rounding but for ties that the specification permits
  kWithin,     // other values, within the limits
  kCorrected,  // further off, as a calibration that corrects other errors leaves them
  kDiffers,    // a limit is broken: see failures
};
// "identical", "ties", "within", "corrected", "differs".
std::string_view MatchName(Match match);

// A group of 128 values of a row (fewer at the end of a row that is no multiple; CQ tensors: of
// their own group).
struct WorstGroup {
  uint64_t row = 0;
  uint64_t group = 0;
  double nmse = 0;  // squared error over squared values; 0 when nothing differs
};

// Failures that are put in words for one tensor; all are counted.
inline constexpr size_t kListedFailures = 4;
// Adds `texts` while there are fewer than that.
void AppendFailures(const std::vector<std::string>& texts, std::vector<std::string>& failures);

// squared_error / squared_values; 0 for no error, infinity for an error where there are no values.
double RelativeError(double squared_error, double squared_values);
// Makes `candidate` the worst when its error is larger, or NaN: nothing is worse.
void KeepWorst(const WorstGroup& candidate, WorstGroup& worst);

struct TensorCheck {
  size_t position = 0;    // in the archive's directory
  std::string name = {};  // canonical
  format::DType dtype = format::DType::kF16;
  std::optional<format::Width> width = {};  // CQ only
  Match match = Match::kIdentical;
  uint64_t values = 0;  // compared, without padding
  uint64_t groups = 0;  // compared
  double nmse = 0;      // of the tensor
  double theory = 0;    // CQ against floats: what the width gives on Gaussian weights; else 0
  WorstGroup worst = {};
  // CQ against floats: groups that are bit for bit those of plain rounding; permitted ties.
  uint64_t plain_groups = 0;
  uint64_t index_ties = 0;
  uint64_t norm_ties = 0;
  uint64_t bad_groups = 0;                 // that broke a limit
  std::vector<std::string> failures = {};  // the first few, each "name: row R, group G: ..."
};

// A limit that the user gave, and the matrices that it was computed for.
struct HeldLimit {
  std::string name = {};
  double limit = 0;
  size_t matrices = 0;
};

struct TensorsReport {
  std::string archive = {};
  std::string against = {};  // what the tensors were compared with
  // Matrices were held to what an encoder chose, and that is what "plain" and "identical" mean.
  bool by_encoder = false;
  std::vector<TensorCheck> tensors = {};  // those that were compared, in file order
  uint64_t values = 0;                    // compared, in all of them
  // Of the whole: geometry, missing, extra, misshapen, too many ties.
  std::vector<std::string> failures = {};
  std::vector<std::string> notes = {};  // what was not compared, and why
  std::vector<HeldLimit> limits = {};

  // Something was compared and no failure is listed anywhere.
  bool passed() const;
  uint64_t num_failures() const;
};

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_TENSOR_REPORT_H_
