// docs/format.md says what the code does: its header tables, and the dump of a tiny archive.

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/format/tiny_archive.h"
#include "tests/support/files.h"
#include "tests/support/status_matchers.h"

namespace needle::format {
namespace {

using ::needle::tests::ReadFile;
using ::needle::tests::WriteFile;

std::string FormatPage() { return ReadFile(std::string(NEEDLE_TESTDATA) + "/../docs/format.md"); }

// The lines between "<!-- `name` -->" and "<!-- end -->".
std::vector<std::string> Section(const std::string& name) {
  const std::string page = FormatPage();
  const std::string begin = "<!-- " + name + " -->\n";
  const size_t start = page.find(begin);
  const size_t end = page.find("<!-- end -->", start);
  if (start == std::string::npos || end == std::string::npos) return {};
  const std::string body = page.substr(start + begin.size(), end - start - begin.size());
  return absl::StrSplit(body, '\n');
}

// "| 12 | kv_window | ..." for every field, in order.
void ExpectTableOf(Generation generation, const std::string& section) {
  const std::vector<std::string> lines = Section(section);
  const auto fields = HeaderFields(generation);
  ASSERT_EQ(lines.size(), fields.size() + 3) << "a head of two lines, a row a field, an empty line";
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string row = absl::StrFormat("| %d | %s |", fields[i].byte, fields[i].name);
    EXPECT_EQ(lines[i + 2].substr(0, row.size()), row);
  }
}

// One layer of two channels, and a tokenizer: what docs/format.md shows in full.
std::vector<uint8_t> DumpedArchive() {
  Geometry g;
  g.kv_window = 16;
  g.vocab = g.out_vocab = 4;
  g.d_model = 2;
  g.num_heads = g.num_kv_heads = g.num_layers = 1;
  g.qk_head_dim = g.v_head_dim = 2;
  g.max_seq_len = 16;
  g.hada_n = 2;
  g.mhc_lanes = 1;
  g.rope_theta = 10000;
  TokenizerTable tokenizer = TinyTokenizer();
  tokenizer.pieces.resize(4);
  return MakeArchive(g, {}, *tokenizer.Serialize());
}

// Lists bytes as "offset  hex  label", 16 a line; equal lines after the first become "*".
class Dump {
 public:
  explicit Dump(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  void Title(const std::string& title) { lines_.push_back(title); }

  void Rows(size_t begin, size_t end, std::string label) {
    std::string previous;
    for (size_t at = begin; at < end; at += 16) {
      const std::string hex = Hex(at, std::min(end, at + 16));
      const bool repeats = hex == previous;
      previous = hex;
      if (!repeats) {
        lines_.push_back(Line(at, hex, label));
      } else if (lines_.back() != "*") {
        lines_.push_back("*");
      }
      label.clear();
    }
  }

  void Gap(size_t begin, size_t end) {
    if (begin == end) return;
    for (size_t at = begin; at < end; ++at) EXPECT_EQ(bytes_[at], 0);
    lines_.push_back(Line(begin, absl::StrFormat("%d zero bytes", end - begin), ""));
  }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::string Hex(size_t begin, size_t end) const {
    std::string hex;
    for (size_t at = begin; at < end; ++at) {
      hex += absl::StrFormat(at == begin ? "%02x" : " %02x", bytes_[at]);
    }
    return hex;
  }
  static std::string Line(size_t at, const std::string& text, const std::string& label) {
    if (label.empty()) return absl::StrFormat("%05x  %s", at, text);
    return absl::StrFormat("%05x  %-47s  %s", at, text, label);
  }

  std::span<const uint8_t> bytes_;
  std::vector<std::string> lines_;
};

std::vector<std::string> DumpLines() {
  const std::vector<uint8_t> bytes = DumpedArchive();
  const auto archive = Archive::FromBytes(bytes, "tiny");
  EXPECT_OK(archive);
  Dump dump(bytes);
  dump.Title("header");
  const auto fields = HeaderFields(Generation::kNeedle3);
  const std::vector<std::string> values = HeaderValues(archive->header());
  for (size_t i = 0; i < fields.size(); ++i) {
    dump.Rows(fields[i].byte, fields[i].byte + 4,
              absl::StrFormat("%s %s", fields[i].name, values[i]));
  }
  dump.Title("codebooks");
  const size_t codebooks = HeaderBytes(Generation::kNeedle3);
  dump.Rows(codebooks, codebooks + 16, "cb2");
  dump.Rows(codebooks + 16, codebooks + 48, "cb3");
  dump.Rows(codebooks + 48, codebooks + 112, "cb4");
  dump.Title("directory");
  size_t place = codebooks + 112;
  for (size_t i = 0; i < archive->records().size(); ++i, place += kRecordBytes) {
    dump.Rows(place, place + kRecordBytes,
              absl::StrFormat("%d %s", i, archive->schema().tensors()[i].name));
  }
  dump.Title("blobs");
  for (size_t i = 0; i < archive->records().size(); ++i) {
    const Record& record = archive->records()[i];
    const TensorSpec& spec = archive->schema().tensors()[i];
    dump.Gap(place, record.offset);
    place = record.offset + record.num_bytes;
    const auto width = WidthFromRecordBits(record.bits);
    dump.Rows(
        record.offset, place,
        absl::StrFormat("%s %s %s", spec.name, width ? WidthName(*width) : DTypeName(spec.dtype),
                        spec.shape.empty() ? "" : ShapeText(spec.shape)));
  }
  EXPECT_EQ(place, bytes.size());
  return dump.lines();
}

TEST(FormatPageTest, Needle3HeaderTableHasEveryFieldAtItsByte) {
  ExpectTableOf(Generation::kNeedle3, "header of Needle 3");
}

TEST(FormatPageTest, Needle2HeaderTableHasEveryFieldAtItsByte) {
  ExpectTableOf(Generation::kNeedle2, "header of Needle 2");
}

TEST(FormatPageTest, DumpIsThatOfTheTinyArchive) {
  std::vector<std::string> wanted = {"```text"};
  for (std::string line : DumpLines()) {
    while (line.back() == ' ') line.pop_back();
    wanted.push_back(line);
  }
  wanted.insert(wanted.end(), {"```", ""});
  const std::vector<std::string> found = Section("dump");
  if (found == wanted) return;
  const std::string path = ::testing::TempDir() + "format_page_dump.txt";
  std::string text;
  for (const std::string& line : wanted) text += line + "\n";
  WriteFile(path, text);
  FAIL() << "docs/format.md, section dump: " << found.size() << " lines, want the " << wanted.size()
         << " of " << path;
}

}  // namespace
}  // namespace needle::format
