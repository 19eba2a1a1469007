#include "converter/npy_header.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace needle::converter {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kMaxNpyHeaderBytes = uint64_t{1} << 20;
constexpr size_t kMaxDimensions = 32;

// Where the length of the header's text ends, by version.
uint64_t TextOffset(uint8_t version) { return version == 1 ? 10 : 12; }

// Reads the Python literal of a header from left to right.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  void SkipSpace() {
    while (next_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[next_]) != std::string::npos) {
      ++next_;
    }
  }
  bool AtEnd() {
    SkipSpace();
    return next_ == text_.size();
  }
  bool Accept(std::string_view token) {
    SkipSpace();
    if (!text_.substr(next_).starts_with(token)) return false;
    next_ += token.size();
    return true;
  }
  absl::Status Expect(std::string_view token) {
    if (Accept(token)) return absl::OkStatus();
    return Error(absl::StrCat("\"", std::string(token), "\""));
  }
  absl::StatusOr<std::string> String() {
    SkipSpace();
    const char quote = next_ < text_.size() ? text_[next_] : '\0';
    if (quote != '\'' && quote != '"') return Error("a string");
    const size_t end = text_.find(quote, next_ + 1);
    if (end == std::string_view::npos) return Error("the end of the string");
    const std::string_view value = text_.substr(next_ + 1, end - next_ - 1);
    next_ = end + 1;
    return std::string(value);
  }
  absl::StatusOr<bool> Boolean() {
    if (Accept("True")) return true;
    if (Accept("False")) return false;
    return Error("True or False");
  }
  absl::StatusOr<uint64_t> Number() {
    SkipSpace();
    size_t end = next_;
    while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
    uint64_t value = 0;
    if (!absl::SimpleAtoi(base::AbslView(text_.substr(next_, end - next_)), &value)) {
      return Error("a whole number");
    }
    next_ = end;
    Accept("L");  // Python 2's long integers
    return value;
  }
  absl::StatusOr<std::vector<uint64_t>> Tuple() {
    RETURN_IF_ERROR(Expect("("));
    std::vector<uint64_t> values;
    while (!Accept(")")) {
      if (values.size() == kMaxDimensions) return Error("at most 32 dimensions");
      ASSIGN_OR_RETURN(const uint64_t value, Number());
      values.push_back(value);
      if (Accept(",")) continue;
      RETURN_IF_ERROR(Expect(")"));
      break;
    }
    return values;
  }
  absl::Status Error(const std::string& want) const {
    return absl::DataLossError(
        absl::StrFormat("npy header: at character %d: want %s", next_, want));
  }

 private:
  std::string_view text_;
  size_t next_ = 0;
};

absl::Status ReadKey(const std::string& key, LiteralReader& reader, NpyHeader& header) {
  if (key == "descr") {
    ASSIGN_OR_RETURN(header.type_name, reader.String());
    ASSIGN_OR_RETURN(header.type, ParseNpyType(header.type_name));
    return absl::OkStatus();
  }
  if (key == "fortran_order") {
    ASSIGN_OR_RETURN(header.fortran_order, reader.Boolean());
    return absl::OkStatus();
  }
  if (key == "shape") {
    ASSIGN_OR_RETURN(header.shape, reader.Tuple());
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat("npy header: key \"%s\" is unknown", key));
}

}  // namespace

absl::StatusOr<NpyType> ParseNpyType(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return absl::DataLossError(
        absl::StrFormat("element type \"%s\": %s", std::string(name), std::string(why)));
  };
  if (name.size() < 2 || std::string_view("<>|=").find(name[0]) == std::string::npos) {
    return refuse("want byte order, kind and size, as in \"<f4\"");
  }
  const std::string_view kind = name.substr(1, 1);
  uint64_t size = 0;
  if (kind == "O") return refuse("arrays of Python objects are not read");
  if (!absl::SimpleAtoi(base::AbslView(name.substr(2)), &size) || size == 0 || size > 1024 ||
      std::string_view("biufcSUV").find(kind) == std::string::npos) {
    return refuse("not one of plain numbers");
  }
  NpyType type;
  type.bytes = kind == "U" ? 4 * size : size;
  type.big_endian = name[0] == '>';
  if (kind == "f" && size == 2) type.type = quant::SourceType::kF16;
  if (kind == "f" && size == 4) type.type = quant::SourceType::kF32;
  if (kind == "f" && size == 8) type.type = quant::SourceType::kF64;
  // How NumPy writes bfloat16, for which it has no name.
  if (name == "<V2") type.type = quant::SourceType::kBf16;
  return type;
}

absl::StatusOr<uint64_t> NpyHeaderBytes(std::span<const uint8_t> preamble) {
  const std::string_view text(reinterpret_cast<const char*>(preamble.data()), preamble.size());
  if (!text.starts_with(kMagic) || text.size() < kNpyPreambleBytes) {
    return absl::DataLossError("not a .npy file");
  }
  const uint8_t version = preamble[6];
  if (version < 1 || version > 3 || preamble[7] != 0) {
    return absl::DataLossError(
        absl::StrFormat("npy version %d.%d, want 1.0, 2.0 or 3.0", version, preamble[7]));
  }
  const uint64_t length =
      version == 1 ? base::LoadLe<uint16_t>(&preamble[8]) : base::LoadLe<uint32_t>(&preamble[8]);
  if (length > kMaxNpyHeaderBytes) {
    return absl::DataLossError(
        absl::StrFormat("npy header of %d bytes, want at most %d", length, kMaxNpyHeaderBytes));
  }
  return TextOffset(version) + length;
}

absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const uint8_t> bytes) {
  const uint64_t start = TextOffset(bytes[6]);
  LiteralReader reader(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).substr(start));
  NpyHeader header;
  header.data_offset = bytes.size();
  std::vector<std::string> keys;
  RETURN_IF_ERROR(reader.Expect("{"));
  while (!reader.Accept("}")) {
    ASSIGN_OR_RETURN(std::string key, reader.String());
    RETURN_IF_ERROR(reader.Expect(":"));
    RETURN_IF_ERROR(ReadKey(key, reader, header));
    keys.push_back(std::move(key));
    if (reader.Accept(",")) continue;
    RETURN_IF_ERROR(reader.Expect("}"));
    break;
  }
  if (!reader.AtEnd()) return reader.Error("nothing behind the header");
  std::sort(keys.begin(), keys.end());
  if (keys == std::vector<std::string>{"descr", "fortran_order", "shape"}) return header;
  return absl::DataLossError("npy header: want each of descr, fortran_order and shape once");
}

}  // namespace needle::converter
