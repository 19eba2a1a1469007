// converter/calibrate/stats_file.h: the moments that a calibration measured, to be used again.
//
// The file: "NEEDLEST", u32 version 1, u64 length of a JSON header {"key": ..., "self": ...}, the
// header, then sections until the end: u32 length of the name, the name, u64 n, u8 symmetric, and
// the values as f64: the upper triangle row by row, or all n * n. Little-endian.
#ifndef NEEDLE_CONVERTER_CALIBRATE_STATS_FILE_H_
#define NEEDLE_CONVERTER_CALIBRATE_STATS_FILE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "quant/dense.h"

namespace needle::calibrate {

// A file that is being read, or one that is being written.
class StatsFile {
 public:
  // Opens `path` when it exists. `key` is all that the moments depend on, as name: value. DataLoss:
  // not such a file. InvalidArgument: another key; names each value that differs, found and wanted.
  static absl::StatusOr<StatsFile> Open(const std::string& path, const base::Json& key);

  // Whether Find works; otherwise Add does.
  bool is_reading() const { return mapped_.has_value(); }
  // The examples of a text that the model wrote, as Add was given them.
  const base::Json& self() const { return self_; }
  // Errors as of base::AtomicFile.
  absl::Status Start(const base::Json& self);

  // DataLoss: there is no such section, or it is of another size.
  absl::StatusOr<quant::DenseMatrix> Find(std::string_view name, size_t n, bool symmetric) const;
  absl::Status Add(std::string_view name, const quant::DenseMatrix& matrix, bool symmetric);
  // Puts the file in place.
  absl::Status Finish();

 private:
  struct Section {
    uint64_t n = 0;
    bool symmetric = false;
    uint64_t offset = 0;  // of the values
  };

  StatsFile(std::string path, base::Json key) : path_(std::move(path)), key_(std::move(key)) {}
  absl::Status Index(std::span<const uint8_t> bytes);
  absl::Status CheckKey(const base::Json& found) const;

  std::string path_;
  base::Json key_;
  base::Json self_;
  std::optional<base::MappedFile> mapped_;
  std::map<std::string, Section, std::less<>> sections_;
  std::optional<base::AtomicFile> output_;
};

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_STATS_FILE_H_
