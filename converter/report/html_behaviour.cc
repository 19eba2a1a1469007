// What the archive answers, against what the reference answers.
#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "converter/report/bar_chart.h"
#include "converter/report/html_sections.h"
#include "converter/report/html_text.h"

namespace needle::report {
namespace {

std::string OfExamples(uint64_t count, uint64_t examples) {
  return absl::StrFormat("%d (%s)", count,
                         PercentText(static_cast<double>(count) / static_cast<double>(examples)));
}

std::string CallsTable(const ReportData& data) {
  HtmlTable table("Greedy answers: are the calls the wanted ones?",
                  {"Run", ">Exact calls", ">Not readable", ">Too many calls", ">Too few calls",
                   ">Tokens", ">Perplexity"});
  for (const RunRow& run : data.runs) {
    const uint64_t all = run.calls.examples;
    table.AddRow({Escape(run.label), OfExamples(run.calls.exact, all),
                  OfExamples(run.calls.unparsable, all), OfExamples(run.calls.over_calling, all),
                  OfExamples(run.calls.under_calling, all), CountText(run.calls.new_tokens),
                  NumberText(run.perplexity)});
  }
  return table.Html();
}

std::string DivergenceTable(const ReportData& data) {
  HtmlTable table(absl::StrCat("KL from ", data.runs[0].label,
                               " at each position of the taught answers, in nats"),
                  {"Run", ">Mean", ">Median", ">95%", ">99%", ">Largest", ">Same top token",
                   ">Same whole answer", ">Positions"});
  for (const RunRow& run : data.runs) {
    if (!run.divergence) continue;
    table.AddRow({Escape(run.label), NumberText(run.divergence->kl_mean),
                  NumberText(run.divergence->kl_median), NumberText(run.divergence->kl_p95),
                  NumberText(run.divergence->kl_p99), NumberText(run.divergence->kl_max),
                  absl::StrFormat("%.2f%%", 100 * run.divergence->top1),
                  PercentText(run.sequences_exact), CountText(run.positions)});
  }
  return table.Html();
}

// Positions from 1, as people count.
std::string PositionText(const PositionRow& row) {
  if (row.first == row.last) return absl::StrCat(row.first + 1);
  return absl::StrCat(row.first + 1, "-", row.last + 1);
}

std::string KlChart(const RunRow& run) {
  BarChart chart{
      .id = "kl",
      .title = "Mean KL by position in the answer",
      .description = "A bar for each token of the answer, or a few together.",
      .note = absl::StrCat(run.label, "; nats; position 1 is the answer's first token.")};
  for (const PositionRow& row : run.by_position) {
    chart.bars.push_back(
        {.label = absl::StrCat(row.first + 1),
         .detail = absl::StrFormat("position %s: mean %s, largest %s, of %d", PositionText(row),
                                   NumberText(row.divergence.kl_mean),
                                   NumberText(row.divergence.kl_max), row.divergence.positions),
         .value = row.divergence.kl_mean});
  }
  return RenderBarChart(chart);
}

std::string TopChart(const RunRow& run) {
  BarChart chart{.id = "top1",
                 .title = "Other top token, by position in the answer",
                 .description = "Share of examples whose most likely token is not the reference's.",
                 .note = absl::StrCat(run.label, "; share of the examples that long."),
                 .percent = true};
  for (const PositionRow& row : run.by_position) {
    const double other = 1 - row.divergence.top1;
    chart.bars.push_back({.label = absl::StrCat(row.first + 1),
                          .detail = absl::StrFormat("position %s: %.2f%% of %d", PositionText(row),
                                                    100 * other, row.divergence.positions),
                          .value = other});
  }
  return RenderBarChart(chart);
}

std::string PositionTable(const RunRow& run) {
  HtmlTable table(absl::StrCat("KL and top token by position, ", run.label),
                  {"Position", ">Mean KL", ">95%", ">Largest", ">Same top token", ">Count"});
  for (const PositionRow& row : run.by_position) {
    table.AddRow({PositionText(row), NumberText(row.divergence.kl_mean),
                  NumberText(row.divergence.kl_p95), NumberText(row.divergence.kl_max),
                  absl::StrFormat("%.2f%%", 100 * row.divergence.top1),
                  CountText(row.divergence.positions)});
  }
  return absl::StrCat("<details><summary>The same as a table</summary>\n", table.Html(),
                      "</details>\n");
}

bool StartsCodePoint(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

// `text` escaped, with what differs from `other` between their common start and end marked.
std::string MarkDifference(std::string_view text, std::string_view other) {
  const size_t shorter = std::min(text.size(), other.size());
  size_t begin = 0;
  while (begin < shorter && text[begin] == other[begin]) ++begin;
  while (begin > 0 && begin < text.size() && !StartsCodePoint(text[begin])) --begin;
  size_t behind = 0;
  while (behind < shorter - begin &&
         text[text.size() - behind - 1] == other[other.size() - behind - 1]) {
    ++behind;
  }
  while (behind > 0 && !StartsCodePoint(text[text.size() - behind])) --behind;
  const std::string_view middle = text.substr(begin, text.size() - begin - behind);
  return absl::StrCat(Escape(text.substr(0, begin)), middle.empty() ? "" : "<mark>", Escape(middle),
                      middle.empty() ? "" : "</mark>", Escape(text.substr(text.size() - behind)));
}

std::string Verdict(const ChangedExample& change) {
  if (change.exact && change.reference_exact) return "both exact";
  if (change.exact) return "<span class=\"good\">gained</span>";
  return change.reference_exact ? "<span class=\"bad\">lost</span>" : "neither exact";
}

std::string Quoted(std::string_view label, const std::string& html) {
  return absl::StrCat("<div class=\"label\">", Escape(label), "</div><pre dir=\"auto\">", html,
                      "</pre>\n");
}

std::string ChangeArticle(const ReportData& data, const ChangedExample& change) {
  return absl::StrCat(
      "<article><h3><span class=\"soft\">Line ", change.line, "</span> ", Verdict(change),
      "</h3>\n", Quoted("Query", Escape(change.query)), Quoted("Wanted", Escape(change.wanted)),
      Quoted(data.runs[0].label, MarkDifference(change.reference, change.answer)),
      Quoted(data.runs[data.device_run].label, MarkDifference(change.answer, change.reference)),
      "</article>\n");
}

}  // namespace

std::string AccuracySection(const ReportData& data) {
  if (data.runs.empty()) return "";
  return absl::StrCat("<section><h2>Accuracy</h2>\n<p>", CountText(data.examples), " examples",
                      data.too_long == 0
                          ? "."
                          : absl::StrFormat("; %d more are longer than the context and were left "
                                            "out.",
                                            data.too_long),
                      " Float is the correctness reference, a8 adds the quantised activations of "
                      "training, kernel is the integer arithmetic of a device.</p>\n",
                      CallsTable(data), DivergenceTable(data), "</section>\n");
}

std::string PositionSection(const ReportData& data) {
  if (data.runs.empty()) return "";
  const RunRow& run = data.runs[data.device_run];
  return absl::StrCat("<section><h2>By position</h2>\n<div class=\"charts\">\n", KlChart(run),
                      TopChart(run), "</div>\n", PositionTable(run), "</section>\n");
}

std::string ChangesSection(const ReportData& data) {
  if (data.runs.empty()) return "";
  std::string html = absl::StrFormat(
      "<section><h2>Answers that changed</h2>\n<p>%d of %d answers are not the text of %s: %d "
      "exact "
      "calls were lost, %d gained.%s</p>\n",
      data.changed, data.examples, Escape(data.runs[0].label), data.lost, data.gained,
      data.changes.size() < data.changed
          ? absl::StrFormat(" The first %d are shown, lost ones first.", data.changes.size())
          : "");
  for (const ChangedExample& change : data.changes) html += ChangeArticle(data, change);
  return html + "</section>\n";
}

}  // namespace needle::report
