// converter/report/behaviour.h: how checkpoint and archive answer. Internal to converter/report.
#ifndef NEEDLE_CONVERTER_REPORT_BEHAVIOUR_H_
#define NEEDLE_CONVERTER_REPORT_BEHAVIOUR_H_

#include "absl/status/status.h"
#include "converter/report/collect.h"
#include "converter/report/report_data.h"

namespace needle::report {

// Fills what ReportData says with examples. Errors as of CollectReport.
absl::Status MeasureBehaviour(const ReportInputs& inputs, const ReportOptions& options,
                              ReportData& data);

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_BEHAVIOUR_H_
