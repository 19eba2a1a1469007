// converter/report/report_html.h: a report as one HTML file that needs nothing else: no network, no
// script, no font. For phones and large screens, light and dark, pointers and screen readers.
#ifndef NEEDLE_CONVERTER_REPORT_REPORT_HTML_H_
#define NEEDLE_CONVERTER_REPORT_REPORT_HTML_H_

#include <string>

#include "absl/status/status.h"
#include "converter/report/report_data.h"

namespace needle::report {

// The whole document, UTF-8. Depends on `data` alone. Every text in `data` is escaped.
std::string ReportHtml(const ReportData& data);

// Writes it by the rules of base::AtomicFile, whose errors it returns.
absl::Status WriteReportHtml(const ReportData& data, const std::string& path);

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_REPORT_HTML_H_
