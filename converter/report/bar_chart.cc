#include "converter/report/bar_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "converter/report/html_text.h"

namespace needle::report {
namespace {

// Units of the drawing; it is about as wide as a phone so that letters keep their size there.
constexpr double kWidth = 400;
constexpr double kHeight = 190;
constexpr double kLeft = 44;
constexpr double kRight = 6;
constexpr double kTop = 10;
constexpr double kBottom = 24;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;
constexpr double kLabelHeight = 11;
constexpr double kLetterWidth = 6.2;  // of most sans-serif letters at that height

double Drawn(double value) { return std::isfinite(value) ? std::max(value, 0.0) : 0; }

// 1, 2 or 5 times a power of ten, such that about four steps reach `most`.
double ScaleStep(double most) {
  const double raw = most / 4;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

double Most(const BarChart& chart) {
  double most = chart.line.value_or(0);
  for (const Bar& bar : chart.bars) {
    most = std::max({most, Drawn(bar.value), Drawn(bar.mark.value_or(0))});
  }
  return most > 0 ? most : 1;
}

struct Scale {
  double step = 1;
  double top = 1;
  double Y(double value) const { return kTop + kPlotHeight * (1 - std::min(value / top, 1.0)); }
};

Scale MakeScale(const BarChart& chart) {
  Scale scale;
  const double most = chart.top > 0 ? chart.top : Most(chart);
  scale.step = ScaleStep(most);
  scale.top = chart.top > 0 ? chart.top : scale.step * std::ceil(most / scale.step - 1e-9);
  return scale;
}

std::string Grid(const BarChart& chart, const Scale& scale) {
  std::string svg;
  const auto steps = static_cast<int>(std::floor(scale.top / scale.step + 1e-9));
  for (int i = 0; i <= steps; ++i) {
    const double value = i * scale.step;
    const double y = scale.Y(value);
    absl::StrAppendFormat(
        &svg,
        "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
        kLeft, kWidth - kRight, y, y, kLeft - 5, y + 4,
        chart.percent ? absl::StrFormat("%.3g%%", 100 * value) : absl::StrFormat("%.3g", value));
  }
  return svg;
}

// Every how many bars a label has room.
size_t LabelStride(const BarChart& chart, double slot) {
  size_t longest = 1;
  for (const Bar& bar : chart.bars) longest = std::max(longest, bar.label.size());
  const double wanted = kLetterWidth * static_cast<double>(longest) + 6;
  return static_cast<size_t>(std::max(1.0, std::ceil(wanted / slot)));
}

std::string Bars(const BarChart& chart, const Scale& scale) {
  std::string svg;
  const double slot = kPlotWidth / static_cast<double>(chart.bars.size());
  const double width = std::min(slot * 0.78, 34.0);
  const size_t stride = LabelStride(chart, slot);
  for (size_t i = 0; i < chart.bars.size(); ++i) {
    const Bar& bar = chart.bars[i];
    const double middle = kLeft + slot * (static_cast<double>(i) + 0.5);
    const double y = scale.Y(Drawn(bar.value));
    absl::StrAppendFormat(&svg,
                          "<rect class=\"bar\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
                          "height=\"%.2f\"><title>%s</title></rect>",
                          middle - width / 2, y, width, kTop + kPlotHeight - y, Escape(bar.detail));
    if (bar.mark) {
      const double mark = scale.Y(Drawn(*bar.mark));
      absl::StrAppendFormat(&svg,
                            "<line class=\"mark\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.2f\" "
                            "y2=\"%.2f\"/>",
                            middle - width / 2 - 1, middle + width / 2 + 1, mark, mark);
    }
    if (i % stride == 0) {
      absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
                            middle, kTop + kPlotHeight + kLabelHeight + 4, Escape(bar.label));
    }
    svg += "\n";
  }
  return svg;
}

}  // namespace

std::string RenderBarChart(const BarChart& chart) {
  const Scale scale = MakeScale(chart);
  std::string svg = absl::StrFormat(
      "<figure>\n<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-labelledby=\"%s-t %s-d\">\n"
      "<title id=\"%s-t\">%s</title><desc id=\"%s-d\">%s</desc>\n",
      kWidth, kHeight, chart.id, chart.id, chart.id, Escape(chart.title), chart.id,
      Escape(chart.description));
  svg += Grid(chart, scale);
  if (!chart.bars.empty()) svg += Bars(chart, scale);
  if (chart.line) {
    const double y = scale.Y(*chart.line);
    absl::StrAppendFormat(
        &svg, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", kLeft,
        kWidth - kRight, y, y);
  }
  absl::StrAppend(&svg, "</svg>\n<figcaption><b>", Escape(chart.title), "</b> ", Escape(chart.note),
                  "</figcaption>\n</figure>\n");
  return svg;
}

}  // namespace needle::report
