// testdata/README.md: every file has a row with its checksum.

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace needle {
namespace {

using ::needle::tests::ReadBytes;
using ::needle::tests::ReadFile;
using ::needle::tests::Testdata;

// File to SHA-256, from the rows "| file | checksum |".
std::map<std::string, std::string> Rows() {
  std::map<std::string, std::string> rows;
  const std::string page = ReadFile(Testdata("README.md"));
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(page, '\n'))) {
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    if (cells.size() != 2 || cells[0].substr(0, 2) != "| ") continue;
    rows[cells[0].substr(2)] = cells[1].substr(0, cells[1].find(' '));
  }
  return rows;
}

TEST(TestdataTest, EveryFileHasItsChecksumInTheReadme) {
  std::map<std::string, std::string> rows = Rows();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Testdata(""))) {
    const std::string name = std::filesystem::relative(entry.path(), Testdata("")).string();
    if (!entry.is_regular_file() || name == "README.md" || name.starts_with("corpus/")) continue;
    EXPECT_EQ(rows[name], base::Sha256Hex(ReadBytes(entry.path().string()))) << name;
    rows.erase(name);
  }
  rows.erase("file");  // the table's head
  for (const auto& [name, checksum] : rows) ADD_FAILURE() << name << " has a row and no file";
}

}  // namespace
}  // namespace needle
