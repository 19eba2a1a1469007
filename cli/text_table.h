// cli/text_table.h: aligned columns for people.
#ifndef NEEDLE_CLI_TEXT_TABLE_H_
#define NEEDLE_CLI_TEXT_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace needle::cli {

class TextTable {
 public:
  // A column's heading; ">bytes" aligns it right.
  explicit TextTable(std::vector<std::string> headings);

  // As many cells as there are headings. UTF-8; a code point counts as one column.
  void AddRow(std::vector<std::string> cells);
  // Heading, rows, a newline after each; two spaces between columns, none at the end of a line.
  std::string Text() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// "1.25 MB", "431 kB", "17 B": decimal units, three digits or two decimals.
std::string BytesText(uint64_t bytes);
// A relative error such as 0.1174, with four significant digits; "-" for a missing one (NaN).
std::string ErrorText(double value);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_TEXT_TABLE_H_
