// converter/verify/archive_summary.h: what an archive or a checkpoint holds, in numbers.
#ifndef NEEDLE_CONVERTER_VERIFY_ARCHIVE_SUMMARY_H_
#define NEEDLE_CONVERTER_VERIFY_ARCHIVE_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "converter/build.h"
#include "converter/leaf.h"
#include "format/header.h"
#include "format/record.h"
#include "format/schema.h"
#include "format/width.h"

namespace needle::verify {

// Tensors of one storage: a CQ width, or one of the plain types.
struct KindTotals {
  std::string kind;                         // "CQ2", "ternary", "FP16", "FP32", "RAW"
  std::optional<format::Width> width = {};  // CQ only
  uint64_t tensors = 0;
  uint64_t values = 0;  // logical; 0 for RAW
  uint64_t bytes = 0;
  // CQ of a build only: squared error over squared weights, and what theory expects of the width.
  std::optional<double> error = {};
  std::optional<double> theory = {};
};

// "CQ2", "ternary" ... for a CQ record, else "FP16", "FP32", "RAW".
// `record` is one of a valid archive or layout.
std::string KindName(const format::Record& record);
std::string KindName(format::DType dtype, std::optional<format::Width> width);

// One entry for each kind that is there: widths ascending, then FP16, FP32, RAW.
std::vector<KindTotals> SummariseKinds(const format::Schema& schema,
                                       const std::vector<format::Record>& records);

// The same of a build, with errors.
std::vector<KindTotals> SummariseBuild(const converter::BuildReport& report);
// The same of a checkpoint's leaves: one entry for each type, by name; kind is the type as the file
// spells it; bytes are those of floating-point types.
std::vector<KindTotals> SummariseLeaves(std::span<const converter::Leaf> leaves);

// "reference", "analytic", "other", or "none" for no entries.
std::string CodebookOrigin(std::span<const float> codebooks);

struct NamedValue {
  std::string name, value;
};
// The header fields of `header` in file order, as text.
std::vector<NamedValue> HeaderTexts(const format::Header& header);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_ARCHIVE_SUMMARY_H_
