// converter/verify/zip_writer.h: a zip file of stored members. libzip reads our inputs, but writes
// through temporary files of its own, which a signal would leave behind; this appends to an
// AtomicFile.
#ifndef NEEDLE_CONVERTER_VERIFY_ZIP_WRITER_H_
#define NEEDLE_CONVERTER_VERIFY_ZIP_WRITER_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/atomic_file.h"

namespace needle::verify {

// Sizes and offsets are written in zip64 form throughout, so that there is no limit and no second
// case. Time stamps are 1980-01-01, the earliest that the format knows.
class ZipWriter {
 public:
  // Appends a member whose content is `parts`, one after another.
  absl::Status Add(base::AtomicFile& file, const std::string& name,
                   std::initializer_list<std::span<const uint8_t>> parts);
  // Appends the directory. Does not commit.
  absl::Status Finish(base::AtomicFile& file);

 private:
  struct Member {
    std::string name;
    uint32_t crc = 0;
    uint64_t size = 0;
    uint64_t offset = 0;
  };
  absl::Status Append(base::AtomicFile& file, std::span<const uint8_t> bytes);

  std::vector<Member> members_;
  uint64_t offset_ = 0;
};

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_ZIP_WRITER_H_
