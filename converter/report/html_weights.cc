// What the archive's bytes are spent on, and how well they hold the weights.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "converter/report/bar_chart.h"
#include "converter/report/html_sections.h"
#include "converter/report/html_text.h"
#include "quant/codebook.h"

namespace needle::report {
namespace {

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string Meter(double share) {
  return absl::StrFormat(
      "<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:%.1f%%\"></i></span>",
      100 * share);
}

std::string BitsText(const SizeRow& row) {
  return row.values == 0 ? "" : absl::StrFormat("%.3g", 8 * Share(row.bytes, row.values));
}

double Ratio(const TensorRow& row) { return row.error / quant::TheoreticalDistortion(row.width); }

std::string ShortPlace(const std::string& place) {
  if (place.starts_with("layer ")) return place.substr(6);
  return place.starts_with("engram ") ? "e" + place.substr(7) : place.substr(0, 3);
}

std::string PlaceChart(const ReportData& data) {
  BarChart chart{.id = "error",
                 .title = "Error of the weights by place, as a multiple of theory",
                 .description =
                     "A bar for each layer, the embedding, the residual mixing (mhc), each "
                     "engram site and the heads. The line is what theory expects.",
                 .note =
                     "Numbers are layers, emb is the embedding, e0 the first engram site. The "
                     "line at 1 is theory: Gaussian weights, plain rounding.",
                 .line = 1};
  for (const PlaceRow& row : data.places) {
    const double ratio = row.error / row.theory;
    chart.bars.push_back({.label = ShortPlace(row.place),
                          .detail = absl::StrFormat("%s: %s times theory (%s against %s)",
                                                    row.place, NumberText(ratio),
                                                    NumberText(row.error), NumberText(row.theory)),
                          .value = ratio});
  }
  return RenderBarChart(chart);
}

// Shaded by how far the ratio is from 1, at most at 3 times or a third.
std::string ShadedCell(const TensorRow& row) {
  const double ratio = Ratio(row);
  const double distance = ratio > 0 ? std::min(std::abs(std::log(ratio)) / std::log(3.0), 1.0) : 0;
  return absl::StrFormat(
      "<span style=\"background:rgba(var(--shade),%.2f);padding:.15rem .4rem;border-radius:.2rem\">"
      "%.2f</span> <span class=\"soft\">%s</span>",
      0.45 * distance, ratio, std::string(format::WidthName(row.width)));
}

// Layers down, projections across.
std::string LayerTable(const std::vector<TensorRow>& tensors) {
  std::vector<std::string_view> headings = {"Layer"};
  std::map<std::string, std::vector<std::string>> cells;
  std::vector<std::string> layers;
  for (const TensorRow& row : tensors) {
    if (!row.place.starts_with("layer ")) continue;
    if (cells.count(row.place) == 0) layers.push_back(row.place);
    if (layers.size() == 1) headings.push_back(row.role);
    cells[row.place].push_back(ShadedCell(row));
  }
  if (layers.empty()) return "";
  HtmlTable table("Error of each layer's projections, as a multiple of theory", headings);
  for (const std::string& layer : layers) {
    std::vector<std::string> row = {Escape(layer.substr(6))};
    row.insert(row.end(), cells[layer].begin(), cells[layer].end());
    table.AddRow(row);
  }
  return table.Html();
}

std::string TensorTable(const ReportData& data) {
  std::vector<std::string_view> headings = {"Tensor", "Width", ">Shape", ">Bytes"};
  if (data.has_errors()) {
    headings.insert(headings.end(),
                    {">Error", ">Theory", ">Ratio", ">Worst group", ">Plain rounding"});
  }
  HtmlTable table("Every quantised tensor", headings);
  for (const TensorRow& row : data.tensors) {
    std::vector<std::string> cells = {Escape(row.name), std::string(format::WidthName(row.width)),
                                      absl::StrFormat("%d x %d", row.rows, row.cols),
                                      CountText(row.bytes)};
    if (data.has_errors()) {
      cells.push_back(NumberText(row.error));
      cells.push_back(NumberText(quant::TheoreticalDistortion(row.width)));
      cells.push_back(NumberText(Ratio(row)));
      cells.push_back(NumberText(row.worst_group));
      cells.push_back(PercentText(row.plain_groups));
    }
    table.AddRow(cells);
  }
  return absl::StrCat("<details><summary>Every quantised tensor</summary>\n", table.Html(),
                      "</details>\n");
}

std::string IndexChart(const IndexHistogram& histogram) {
  const std::string width(format::WidthName(histogram.width));
  BarChart chart{
      .id = absl::StrCat("index-", static_cast<uint32_t>(histogram.width)),
      .title = absl::StrCat("Indices at ", width),
      .description =
          "How often each entry of the codebook is used; ticks show what "
          "Gaussian weights would give.",
      .note = absl::StrCat("Entries in standard deviations; ", CountText(histogram.total()),
                           " indices. Ticks: Gaussian weights."),
      .percent = true};
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const double share = Share(histogram.counts[i], histogram.total());
    chart.bars.push_back(
        {.label = absl::StrFormat("%.2f", histogram.entries[i]),
         .detail = absl::StrFormat("entry %.4f: %s, Gaussian %s", histogram.entries[i],
                                   PercentText(share), PercentText(histogram.expected[i])),
         .value = share,
         .mark = histogram.expected[i]});
  }
  return RenderBarChart(chart);
}

std::string NormChart(const NormHistogram& norms) {
  BarChart chart{.id = "norms",
                 .title = "Norms of the groups",
                 .description =
                     "How many groups of 128 weights have a norm of that size, in half "
                     "powers of two.",
                 .note = absl::StrFormat(
                     "%s groups, from %s to %s; %s are zero, %s below the normal "
                     "range of 16-bit floats. Below each bar: its lower end.",
                     CountText(norms.total), NumberText(norms.smallest), NumberText(norms.largest),
                     CountText(norms.zero), CountText(norms.subnormal)),
                 .percent = true};
  for (size_t i = 0; i < norms.counts.size(); ++i) {
    const double low = std::exp2(norms.first_exponent + 0.5 * static_cast<double>(i));
    chart.bars.push_back(
        {.label = absl::StrFormat("%.2g", low),
         .detail = absl::StrFormat("%s to %s: %s groups", NumberText(low),
                                   NumberText(low * std::sqrt(2.0)), CountText(norms.counts[i])),
         .value = Share(norms.counts[i], norms.total)});
  }
  return RenderBarChart(chart);
}

}  // namespace

std::string SizeSection(const ReportData& data) {
  HtmlTable table("Bytes of the file by what they hold",
                  {"Kind", ">Bytes", ">Share", "", ">Tensors", ">Values", ">Bits a value"});
  uint64_t tensors = 0;
  for (const SizeRow& row : data.sizes) {
    tensors += row.tensors;
    const double share = Share(row.bytes, data.summary.file_bytes);
    table.AddRow({Escape(row.kind), CountText(row.bytes), PercentText(share), Meter(share),
                  row.tensors == 0 ? "" : CountText(row.tensors),
                  row.values == 0 ? "" : CountText(row.values), BitsText(row)});
  }
  table.AddRow(
      {"all", CountText(data.summary.file_bytes), PercentText(1), "", CountText(tensors), "", ""});
  return absl::StrCat("<section><h2>Size</h2>\n", table.Html(),
                      data.has_errors() ? "" : TensorTable(data), "</section>\n");
}

std::string ErrorSection(const ReportData& data) {
  if (!data.has_errors()) return "";
  return absl::StrCat(
      "<section><h2>Error of the weights</h2>\n<p>Squared error over squared weights, against the "
      "checkpoint. Theory is what plain rounding of Gaussian weights gives at the width. A "
      "calibrated "
      "archive lies above it on purpose: it spends error where activations do not look.</p>\n",
      PlaceChart(data), LayerTable(data.tensors), TensorTable(data), "</section>\n");
}

std::string HistogramSection(const ReportData& data) {
  std::string html = "<section><h2>Indices and norms</h2>\n<div class=\"charts\">\n";
  for (const IndexHistogram& histogram : data.indices) html += IndexChart(histogram);
  return absl::StrCat(html, NormChart(data.norms), "</div></section>\n");
}

}  // namespace needle::report
