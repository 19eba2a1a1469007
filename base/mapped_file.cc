#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace needle::base {
namespace {

absl::Status ReadError(const std::string& path, const char* what, int error) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(message)
                                             : absl::FailedPreconditionError(message);
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // Names from JSON can have one; the system would open what stands before it.
  if (path.find('\0') != std::string::npos)
    return absl::NotFoundError(absl::StrCat(path, ": the name has a NUL byte"));
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return ReadError(path, "cannot open", errno);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return ReadError(path, "cannot stat", errno);
  if (S_ISDIR(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, want a file"));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a pipe or device, want a regular file"));
  }
  if (info.st_size == 0) return MappedFile(path, {});
  const auto size = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return ReadError(path, "cannot map", errno);
  return MappedFile(path, {static_cast<const uint8_t*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

void MappedFile::WillNeed(uint64_t offset, uint64_t size) const {
  if (offset >= bytes_.size()) return;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  const uint64_t end =
      std::min<uint64_t>(bytes_.size(), offset + std::min<uint64_t>(size, bytes_.size()));
  madvise(const_cast<uint8_t*>(bytes_.data()) + begin, end - begin, MADV_WILLNEED);
}

}  // namespace needle::base
