// converter/report/bar_chart.h: bars as inline SVG. Internal to converter/report.
#ifndef NEEDLE_CONVERTER_REPORT_BAR_CHART_H_
#define NEEDLE_CONVERTER_REPORT_BAR_CHART_H_

#include <optional>
#include <string>
#include <vector>

namespace needle::report {

struct Bar {
  std::string label = {};           // below the bar, where there is room
  std::string detail = {};          // shown when pointed at, and read aloud
  double value = 0;                 // finite, not negative; others are drawn as nothing
  std::optional<double> mark = {};  // a tick at this height: what was expected
};

struct BarChart {
  std::string id = {};     // unique in the document; letters, digits and '-'
  std::string title = {};  // all texts are plain and get escaped
  std::string description = {};
  std::string note = {};  // below the chart
  std::vector<Bar> bars = {};
  std::optional<double> line = {};  // a line across at this height
  bool percent = false;             // the scale shows shares
  double top = 0;                   // the scale ends here; 0: at what the bars need
};

// A figure as wide as its surroundings. Colours come from the style sheet of report_html.
std::string RenderBarChart(const BarChart& chart);

}  // namespace needle::report

#endif  // NEEDLE_CONVERTER_REPORT_BAR_CHART_H_
