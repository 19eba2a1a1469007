#include "converter/report/html_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"

namespace needle::report {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

void AppendEscaped(char c, std::string& html) {
  switch (c) {
    case '&':
      html += "&amp;";
      return;
    case '<':
      html += "&lt;";
      return;
    case '>':
      html += "&gt;";
      return;
    case '"':
      html += "&quot;";
      return;
    case '\'':
      html += "&#39;";
      return;
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if ((byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7F) {
    html += kReplacement;
  } else {
    html += c;
  }
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string html;
  for (const char c : base::ReplaceInvalidUtf8(text)) AppendEscaped(c, html);
  return html;
}

std::string CountText(uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string BytesText(uint64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  if (bytes < 1000 * 1000) return absl::StrFormat("%.1f kB", value / 1e3);
  return absl::StrFormat("%.2f MB", value / 1e6);
}

std::string NumberText(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.4g", value) : "n/a";
}

std::string PercentText(double share) { return absl::StrFormat("%.1f%%", 100 * share); }

HtmlTable::HtmlTable(std::string_view caption, const std::vector<std::string_view>& headings)
    : caption_(Escape(caption)) {
  for (const std::string_view heading : headings) {
    right_.push_back(heading.starts_with('>'));
    absl::StrAppend(&head_, "<th scope=\"col\"", right_.back() ? " class=\"num\"" : "", ">",
                    Escape(right_.back() ? heading.substr(1) : heading), "</th>");
  }
}

void HtmlTable::AddRow(const std::vector<std::string>& cells) {
  absl::StrAppend(&body_, "<tr><th scope=\"row\">", cells[0], "</th>");
  for (size_t i = 1; i < cells.size(); ++i) {
    absl::StrAppend(&body_, right_[i] ? "<td class=\"num\">" : "<td>", cells[i], "</td>");
  }
  body_ += "</tr>\n";
}

std::string HtmlTable::Html() const {
  return absl::StrCat("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"",
                      caption_, "\">\n<table><caption><span>", caption_,
                      "</span></caption>\n<thead><tr>", head_, "</tr></thead>\n<tbody>\n", body_,
                      "</tbody></table></div>\n");
}

}  // namespace needle::report
