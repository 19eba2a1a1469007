// cli/report_text.h: parts of reports that several commands print.
#ifndef NEEDLE_CLI_REPORT_TEXT_H_
#define NEEDLE_CLI_REPORT_TEXT_H_

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/output.h"
#include "converter/build_report.h"
#include "converter/verify/archive_summary.h"
#include "format/archive.h"

namespace needle::cli {

// A table with a row for each kind and one for all of them, and the same as a JSON array of
// {kind, tensors, values, bytes}, after a build with {error, theory} for CQ.
std::string KindsText(const std::vector<verify::KindTotals>& kinds);
base::Json KindsJson(const std::vector<verify::KindTotals>& kinds);

// The header's fields by name; numbers as numbers.
base::Json HeaderJson(const format::Header& header);

// An archive's tensors: {name, kind, shape, bytes, offset} each, and as a table.
base::Json LayoutJson(const format::Schema& schema, const std::vector<format::Record>& records);
std::string LayoutText(const format::Schema& schema, const std::vector<format::Record>& records);

// A build's tensors: {name, kind, shape, bytes, error, theory, zero_groups, subnormal_norms,
// vanished_values, recipe} each, the errors for CQ only, and as a table.
base::Json TensorReportsJson(const std::vector<converter::TensorReport>& tensors);
std::string TensorReportsText(const std::vector<converter::TensorReport>& tensors);

// Prints each to standard error; returns them as JSON.
base::Json TellWarnings(const std::vector<std::string>& warnings, const Messages& messages);

// One line: path, generation, layers, tensors, size.
std::string ArchiveLine(const format::Archive& archive);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_REPORT_TEXT_H_
