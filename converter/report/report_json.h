// converter/report/report_json.h: a report's numbers as JSON.
#ifndef NEEDLE_CONVERTER_REPORT_REPORT_JSON_H_
#define NEEDLE_CONVERTER_REPORT_REPORT_JSON_H_

#include "base/json.h"
#include "converter/report/report_data.h"

namespace needle::report {

// {summary, sizes, tensors, indices, norms}; against a checkpoint also {places, verification}; with
// examples also {behaviour}. Numbers that are not finite become null.
base::Json ReportJson(const ReportData& data);

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_REPORT_JSON_H_
