#include "converter/report/report_html.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "converter/report/html_sections.h"
#include "converter/report/html_text.h"

namespace needle::report {
namespace {

// The policy forbids what the document does not need, so that nothing in it can reach out.
constexpr char kHead[] = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
)html";

std::string Tile(std::string_view label, const std::string& value) {
  return absl::StrCat("<div><dt>", Escape(label), "</dt><dd>", Escape(value), "</dd></div>\n");
}

std::string Fact(std::string_view label, const std::string& value) {
  return absl::StrCat("<dt>", Escape(label), "</dt><dd>", Escape(value), "</dd>\n");
}

std::string ExactText(const RunRow& run) {
  return absl::StrFormat("%d of %d", run.calls.exact, run.calls.examples);
}

std::string Tiles(const ReportData& data) {
  std::string html = "<dl class=\"tiles\">\n";
  const Summary& summary = data.summary;
  html += Tile("Size", BytesText(summary.file_bytes));
  html += Tile("Bits a weight", NumberText(summary.bits_per_weight));
  html += Tile("Model", absl::StrFormat("%s, %d layers", summary.generation, summary.layers));
  if (data.has_errors()) {
    html +=
        Tile("Tensors", data.failures == 0 ? "verified" : absl::StrCat(data.failures, " faults"));
  }
  if (!data.runs.empty()) {
    const RunRow& device = data.runs[data.device_run];
    html += Tile("Exact calls, " + device.label, ExactText(device));
    html += Tile("Exact calls, " + data.runs[0].label, ExactText(data.runs[0]));
    html += Tile("Mean KL, " + device.label, NumberText(device.divergence->kl_mean));
    html += Tile("Answers that changed", absl::StrCat(data.changed));
  }
  return html + "</dl>\n";
}

std::string Facts(const Summary& summary) {
  std::string html = "<dl class=\"facts\">\n";
  if (!summary.against.empty()) html += Fact("Checkpoint", summary.against);
  if (!summary.data.empty()) html += Fact("Examples", summary.data);
  absl::StrAppend(&html, "<dt>Bit map</dt><dd><code>", Escape(summary.bit_map), "</code></dd>\n");
  html += Fact("File", CountText(summary.file_bytes) + " bytes");
  html += Fact("Weights in matrices", CountText(summary.cq_weights));
  html += Fact("Width", absl::StrCat(summary.d_model));
  html += Fact("Vocabulary", CountText(summary.vocab));
  html += Fact("Tokenizer", summary.tokenizer_pieces == 0
                                ? "none"
                                : CountText(summary.tokenizer_pieces) + " pieces");
  html += Fact("Context", CountText(summary.max_seq_len) + " tokens");
  html +=
      Fact("KV cache", absl::StrFormat("%d bits, window %d", summary.kv_bits, summary.kv_window));
  html += Fact("Heads", summary.heads.empty() ? "none" : absl::StrJoin(summary.heads, ", "));
  return html + "</dl>\n";
}

// The last part of a path.
std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string Failures(const ReportData& data) {
  if (data.failures == 0) return "";
  std::string html = absl::StrCat("<section role=\"alert\"><h2 class=\"bad\">", data.failures,
                                  " faults in the tensors</h2>\n<ul>\n");
  for (const std::string& text : data.failure_texts) {
    absl::StrAppend(&html, "<li>", Escape(text), "</li>\n");
  }
  return html + "</ul></section>\n";
}

}  // namespace

std::string ReportHtml(const ReportData& data) {
  const std::string name = Escape(FileName(data.summary.archive));
  return absl::StrCat(kHead, "<title>", name, " - needle-build report</title>\n<style>",
                      kReportStyle, "</style>\n</head>\n<body>\n<main>\n<header><h1>", name,
                      "</h1>\n", Tiles(data), Facts(data.summary), "</header>\n", Failures(data),
                      AccuracySection(data), PositionSection(data), SizeSection(data),
                      ErrorSection(data), HistogramSection(data), ChangesSection(data),
                      "</main>\n</body>\n</html>\n");
}

absl::Status WriteReportHtml(const ReportData& data, const std::string& path) {
  const std::string html = ReportHtml(data);
  ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  const std::vector<uint8_t> bytes(html.begin(), html.end());
  RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

}  // namespace needle::report
