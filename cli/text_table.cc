#include "cli/text_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace needle::cli {
namespace {

size_t CodePoints(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  rows_.push_back(std::move(headings));
}

void TextTable::AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string TextTable::Text() const {
  std::vector<size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], CodePoints(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - CodePoints(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right_[i] ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string BytesText(uint64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes < 1000) return absl::StrFormat("%d B", bytes);
  if (bytes < 999'500) return absl::StrFormat("%.0f kB", value / 1e3);
  if (bytes < 999'995'000) return absl::StrFormat("%.2f MB", value / 1e6);
  return absl::StrFormat("%.2f GB", value / 1e9);
}

std::string ErrorText(double value) {
  return std::isnan(value) ? "-" : absl::StrFormat("%.4g", value);
}

}  // namespace needle::cli
