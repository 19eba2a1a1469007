// converter/report/html_text.h: texts, numbers and tables for HTML. Internal to converter/report.
#ifndef NEEDLE_CONVERTER_REPORT_HTML_TEXT_H_
#define NEEDLE_CONVERTER_REPORT_HTML_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace needle::report {

// `text` as the content of an element or of an attribute in double quotes: & < > " ' escaped,
// invalid UTF-8 and control characters other than tab and line feed replaced by U+FFFD.
std::string Escape(std::string_view text);

// "1,234,567"
std::string CountText(uint64_t count);
// "1.25 MB", decimal units; below 1000 "17 B".
std::string BytesText(uint64_t bytes);
// Four significant digits; "n/a" when not finite.
std::string NumberText(double value);
// "98.5%"
std::string PercentText(double share);

// A table with a caption, headings for columns and rows, in a box that scrolls sideways by itself.
// Cells are HTML: escape what goes in.
class HtmlTable {
 public:
  // A heading that starts with '>' aligns its column right. `caption` and headings are plain text.
  HtmlTable(std::string_view caption, const std::vector<std::string_view>& headings);
  // As many cells as headings; the first one is the row's heading.
  void AddRow(const std::vector<std::string>& cells);
  std::string Html() const;

 private:
  std::string caption_;
  std::vector<bool> right_;
  std::string head_, body_;
};

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_HTML_TEXT_H_
