#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace needle::base {
namespace {

// What a signal handler may read: the names of open temporaries, in storage that never moves.
struct TemporarySlot {
  std::atomic<int> state = kFree;
  std::array<char, PATH_MAX> path;
  static constexpr int kFree = 0;
  static constexpr int kFilling = 1;
  static constexpr int kUsed = 2;
};
std::array<TemporarySlot, 128> g_temporaries;

void RememberTemporary(const std::string& path) {
  for (TemporarySlot& slot : g_temporaries) {
    int expected = TemporarySlot::kFree;
    if (path.size() >= slot.path.size()) return;
    if (!slot.state.compare_exchange_strong(expected, TemporarySlot::kFilling)) continue;
    std::memcpy(slot.path.data(), path.c_str(), path.size() + 1);
    slot.state.store(TemporarySlot::kUsed);
    return;
  }
}

void ForgetTemporary(const std::string& path) {
  for (TemporarySlot& slot : g_temporaries) {
    if (slot.state.load() == TemporarySlot::kUsed && path == slot.path.data()) {
      slot.state.store(TemporarySlot::kFree);
      return;
    }
  }
}

absl::Status WriteError(const std::string& path, const char* what, int error) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

std::optional<struct stat> Stat(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return info;
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The file that a write to `target` replaces: what a symbolic link points at, so that the link
// stays one.
absl::StatusOr<std::string> ResolveLink(const std::string& target) {
  struct stat info = {};
  if (lstat(target.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return target;
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(target, error);
  if (error) return absl::NotFoundError(absl::StrCat(target, ": is a symbolic link to nothing"));
  return resolved.string();
}

absl::Status CheckFolder(const std::string& target) {
  const std::string folder = FolderOf(target);
  const auto info = Stat(folder);
  if (!info)
    return absl::NotFoundError(absl::StrCat(target, ": folder ", folder, " does not exist"));
  if (!S_ISDIR(info->st_mode))
    return absl::NotFoundError(absl::StrCat(target, ": ", folder, " is not a folder"));
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(target, ": folder ", folder, " cannot be written: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status CheckExisting(const std::string& target, const struct stat& info) {
  if (S_ISDIR(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(target, ": is a folder, want a file name"));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(target, ": is a pipe or device, want a regular file"));
  }
  // The mode is checked as well: root passes access() on a file that somebody made read-only on
  // purpose.
  if ((info.st_mode & 0222) == 0 || access(target.c_str(), W_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(target, ": exists and is read-only"));
  }
  return absl::OkStatus();
}

absl::Status WriteFully(int descriptor, std::span<const uint8_t> bytes, uint64_t offset,
                        const std::string& target) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(target, "cannot write", errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return absl::OkStatus();
}

// Bytes after which the disk is set to work, so that Commit finds little left to wait for: writing
// 38 MB and syncing took 80 ms, and 47 ms this way (ext4 on a virtual disk).
constexpr uint64_t kWritebackBytes = uint64_t{4} << 20;

void SyncFolder(const std::string& path) {
  const int folder = open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

}  // namespace

absl::Status AtomicFile::CheckTarget(const std::string& target,
                                     std::span<const std::string> inputs) {
  if (target.empty()) return absl::InvalidArgumentError("the output path is empty");
  ASSIGN_OR_RETURN(const std::string resolved, ResolveLink(target));
  RETURN_IF_ERROR(CheckFolder(resolved));
  if (!std::filesystem::path(target).has_filename()) {
    return absl::InvalidArgumentError(absl::StrCat(target, ": is a folder, want a file name"));
  }
  const auto info = Stat(resolved);
  if (!info) return absl::OkStatus();
  RETURN_IF_ERROR(CheckExisting(target, *info));
  for (const std::string& input : inputs) {
    const auto input_info = Stat(input);
    if (input_info && input_info->st_dev == info->st_dev && input_info->st_ino == info->st_ino) {
      return absl::InvalidArgumentError(
          absl::StrCat(target, ": the output is the same file as the input ", input));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& target) {
  RETURN_IF_ERROR(CheckTarget(target, {}));
  ASSIGN_OR_RETURN(const std::string resolved, ResolveLink(target));
  static std::atomic<uint32_t> counter = 0;
  const std::filesystem::path name = std::filesystem::path(resolved).filename();
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string temporary = absl::StrCat(FolderOf(resolved), "/.", name.string(), ".",
                                               getpid(), ".", counter.fetch_add(1), ".tmp");
    const int descriptor = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      RememberTemporary(temporary);
      return AtomicFile(resolved, temporary, descriptor);
    }
    if (errno != EEXIST)
      return WriteError(target, "cannot create a temporary file beside it", errno);
  }
  return absl::InternalError(absl::StrCat(target, ": no free temporary name beside it"));
}

AtomicFile::AtomicFile(std::string target, std::string temporary, int descriptor)
    : target_(std::move(target)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      appended_(other.appended_),
      written_(other.written_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  target_ = std::move(other.target_);
  temporary_ = std::move(other.temporary_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  appended_ = other.appended_;
  written_ = other.written_;
  return *this;
}

AtomicFile::~AtomicFile() { Abandon(); }

void AtomicFile::Abandon() noexcept {
  if (descriptor_ < 0) return;
  close(std::exchange(descriptor_, -1));
  unlink(temporary_.c_str());
  ForgetTemporary(temporary_);
}

absl::Status AtomicFile::Append(std::span<const uint8_t> bytes) {
  RETURN_IF_ERROR(WriteAt(appended_, bytes));
  appended_ += bytes.size();
  return absl::OkStatus();
}

absl::Status AtomicFile::WriteAt(uint64_t offset, std::span<const uint8_t> bytes) {
  RETURN_IF_ERROR(WriteFully(descriptor_, bytes, offset, target_));
  const uint64_t before =
      std::atomic_ref(written_).fetch_add(bytes.size(), std::memory_order_relaxed);
  // Only a hint, to the end of the file: what it could report, Commit's fsync reports as well.
  if (before / kWritebackBytes != (before + bytes.size()) / kWritebackBytes) {
    sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Resize(uint64_t size) {
  if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
    return WriteError(target_, "cannot set its size", errno);
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(descriptor_) != 0) return WriteError(target_, "cannot sync", errno);
  if (rename(temporary_.c_str(), target_.c_str()) != 0)
    return WriteError(target_, "cannot rename into place", errno);
  ForgetTemporary(temporary_);
  close(std::exchange(descriptor_, -1));
  SyncFolder(target_);
  return absl::OkStatus();
}

void AtomicFile::RemoveAllTemporaries() noexcept {
  for (TemporarySlot& slot : g_temporaries) {
    if (slot.state.load() == TemporarySlot::kUsed) unlink(slot.path.data());
  }
}

}  // namespace needle::base
