// base/mapped_file.h: a file mapped for reading.
#ifndef NEEDLE_BASE_MAPPED_FILE_H_
#define NEEDLE_BASE_MAPPED_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace needle::base {

// Owns a read-only, private mapping of a whole regular file. Movable; the bytes stay where they are
// when it is moved.
class MappedFile {
 public:
  // NotFound: no such file. InvalidArgument: a folder, FIFO or device. FailedPrecondition: it
  // cannot be read. Each names the path. An empty file maps to no bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  // Valid as long as this object lives. Reading bytes that another process cut off the file
  // meanwhile is a fault that no program can turn into an error; outputs are therefore renamed into
  // place and never written over.
  std::span<const uint8_t> bytes() const& { return bytes_; }
  std::span<const uint8_t> bytes() && = delete;

  // Tells the kernel that [offset, offset + size) will be read soon. A hint; never fails.
  void WillNeed(uint64_t offset, uint64_t size) const;

 private:
  MappedFile(std::string path, std::span<const uint8_t> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const uint8_t> bytes_;
};

}  // namespace needle::base

#endif  // NEEDLE_BASE_MAPPED_FILE_H_
