// converter/report/html_sections.h: the parts of the document, each a <section> or nothing where
// the report has no such numbers. Internal to converter/report.
#ifndef NEEDLE_CONVERTER_REPORT_HTML_SECTIONS_H_
#define NEEDLE_CONVERTER_REPORT_HTML_SECTIONS_H_

#include <string>

#include "converter/report/report_data.h"

namespace needle::report {

std::string SizeSection(const ReportData& data);
std::string ErrorSection(const ReportData& data);
std::string HistogramSection(const ReportData& data);
std::string AccuracySection(const ReportData& data);
std::string PositionSection(const ReportData& data);
std::string ChangesSection(const ReportData& data);

// The style sheet.
extern const char kReportStyle[];

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_HTML_SECTIONS_H_
