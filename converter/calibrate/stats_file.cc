#include "converter/calibrate/stats_file.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/status_macros.h"

namespace needle::calibrate {
namespace {

constexpr std::string_view kMagic = "NEEDLEST";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kPreamble = 8 + 4 + 8;

uint64_t NumValues(uint64_t n, bool symmetric) { return symmetric ? n * (n + 1) / 2 : n * n; }

// Reads one value after the other and never beyond the end.
class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool at_end() const { return at_ == bytes_.size(); }
  uint64_t position() const { return at_; }
  std::optional<std::span<const uint8_t>> Take(uint64_t count) {
    if (count > bytes_.size() - at_) return std::nullopt;
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  template <typename T>
  std::optional<T> Number() {
    const auto bytes = Take(sizeof(T));
    if (!bytes) return std::nullopt;
    return base::LoadLe<T>(bytes->data());
  }
  std::optional<std::string> Text(uint64_t count) {
    const auto bytes = Take(count);
    if (!bytes) return std::nullopt;
    return std::string(bytes->begin(), bytes->end());
  }

 private:
  std::span<const uint8_t> bytes_;
  uint64_t at_ = 0;
};

template <typename T>
void Put(std::vector<uint8_t>& bytes, T value) {
  bytes.resize(bytes.size() + sizeof(T));
  base::StoreLe(&bytes[bytes.size() - sizeof(T)], value);
}

void PutText(std::vector<uint8_t>& bytes, std::string_view text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
}

std::string ValueText(const base::Json& object, const std::string& name) {
  return object.contains(name) ? base::DumpJson(object[name]) : "nothing";
}

}  // namespace

absl::StatusOr<StatsFile> StatsFile::Open(const std::string& path, const base::Json& key) {
  StatsFile file(path, key);
  auto mapped = base::MappedFile::Open(path);
  if (absl::IsNotFound(mapped.status())) return file;
  if (!mapped.ok()) return mapped.status();
  file.mapped_ = *std::move(mapped);
  RETURN_IF_ERROR(file.Index(file.mapped_->bytes()));
  return file;
}

absl::Status StatsFile::CheckKey(const base::Json& found) const {
  std::vector<std::string> differences;
  for (const auto& [name, value] : key_.items()) {
    if (found.contains(name) && found[name] == value) continue;
    differences.push_back(
        absl::StrFormat("%s is %s, want %s", name, ValueText(found, name), base::DumpJson(value)));
  }
  if (differences.empty() && found.size() == key_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": statistics of something else: ", absl::StrJoin(differences, "; ")));
}

absl::Status StatsFile::Index(std::span<const uint8_t> bytes) {
  Cursor cursor(bytes);
  const auto magic = cursor.Text(kMagic.size());
  const auto version = cursor.Number<uint32_t>();
  const auto length = cursor.Number<uint64_t>();
  if (magic != kMagic || version != kVersion || !length) {
    return absl::DataLossError(path_ + ": not a statistics file of version 1");
  }
  const auto text = cursor.Text(*length);
  if (!text) return absl::DataLossError(path_ + ": ends inside its header");
  auto header = base::ParseJson(*text);
  if (!header.ok()) return base::WithContext(header.status(), path_ + ": header");
  if (!header->is_object() || !header->contains("key") || !(*header)["key"].is_object()) {
    return absl::DataLossError(path_ + ": header without a key");
  }
  RETURN_IF_ERROR(CheckKey((*header)["key"]));
  if (header->contains("self")) self_ = (*header)["self"];
  while (!cursor.at_end()) {
    const uint64_t start = cursor.position();
    const auto name_length = cursor.Number<uint32_t>();
    const auto name = name_length ? cursor.Text(*name_length) : std::nullopt;
    const auto n = cursor.Number<uint64_t>();
    const auto symmetric = cursor.Number<uint8_t>();
    if (!name || !n || !symmetric || *n > (uint64_t{1} << 20)) {
      return absl::DataLossError(
          absl::StrFormat("%s: section at byte %d is cut off or too large", path_, start));
    }
    const Section section = {*n, *symmetric != 0, cursor.position()};
    if (!cursor.Take(NumValues(*n, section.symmetric) * sizeof(double))) {
      return absl::DataLossError(
          absl::StrFormat("%s: section %s at byte %d is cut off", path_, *name, start));
    }
    sections_[*name] = section;
  }
  return absl::OkStatus();
}

absl::Status StatsFile::Start(const base::Json& self) {
  self_ = self;
  ASSIGN_OR_RETURN(output_, base::AtomicFile::Create(path_));
  const std::string header = base::DumpJson({{"key", key_}, {"self", self}});
  std::vector<uint8_t> bytes;
  PutText(bytes, kMagic);
  Put(bytes, kVersion);
  Put(bytes, uint64_t{header.size()});
  PutText(bytes, header);
  return output_->Append(bytes);
}

absl::StatusOr<quant::DenseMatrix> StatsFile::Find(std::string_view name, size_t n,
                                                   bool symmetric) const {
  const auto found = sections_.find(name);
  if (found == sections_.end() || found->second.n != n || found->second.symmetric != symmetric) {
    return absl::DataLossError(absl::StrFormat(
        "%s: section %s: %s, want %d channels", path_, std::string(name),
        found == sections_.end() ? "missing" : absl::StrFormat("%d channels", found->second.n), n));
  }
  const uint8_t* value = mapped_->bytes().data() + found->second.offset;
  quant::DenseMatrix matrix(n, n);
  for (size_t r = 0; r < n; ++r) {
    for (size_t c = symmetric ? r : 0; c < n; ++c) {
      matrix.at(r, c) = base::LoadLe<double>(value);
      if (symmetric) matrix.at(c, r) = matrix.at(r, c);
      value += sizeof(double);
    }
  }
  return matrix;
}

absl::Status StatsFile::Add(std::string_view name, const quant::DenseMatrix& matrix,
                            bool symmetric) {
  std::vector<uint8_t> bytes;
  bytes.reserve(NumValues(matrix.rows(), symmetric) * sizeof(double) + name.size() + kPreamble);
  Put(bytes, static_cast<uint32_t>(name.size()));
  PutText(bytes, name);
  Put(bytes, uint64_t{matrix.rows()});
  Put(bytes, static_cast<uint8_t>(symmetric ? 1 : 0));
  for (size_t r = 0; r < matrix.rows(); ++r) {
    for (size_t c = symmetric ? r : 0; c < matrix.cols(); ++c) Put(bytes, matrix.at(r, c));
  }
  return output_->Append(bytes);
}

absl::Status StatsFile::Finish() { return output_->Commit(); }

}  // namespace needle::calibrate
