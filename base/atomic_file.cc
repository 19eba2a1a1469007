#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/output_place.h"
#include "base/removal_list.h"
#include "base/status_macros.h"

namespace needle::base {
namespace {

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

absl::Status AtomicFile::CheckTargets(std::span<const std::string> targets,
                                      std::span<const std::string> inputs) {
  for (const std::string& target : targets) RETURN_IF_ERROR(CheckPlace(target));
  RETURN_IF_ERROR(CheckDistinct(targets, inputs));
  // The surest way to know whether a file can be made here is to make one.
  for (const std::string& target : targets) RETURN_IF_ERROR(Create(target).status());
  return absl::OkStatus();
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& target) {
  RETURN_IF_ERROR(CheckPlace(target));
  ASSIGN_OR_RETURN(const std::string resolved, ResolveLink(target));
  RemoveLeftovers(FolderOf(resolved));
  const bool replaces = access(resolved.c_str(), F_OK) == 0;
  ASSIGN_OR_RETURN(AtomicFile file, OpenTemporary(target, resolved, replaces ? 0600 : 0666));
  RETURN_IF_ERROR(file.TryRename());
  if (replaces) file.TakeOverAccess();
  return file;
}

absl::StatusOr<AtomicFile> AtomicFile::OpenTemporary(const std::string& target,
                                                     const std::string& resolved, unsigned mode) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string temporary = NewTemporaryPath(FolderOf(resolved));
    const int descriptor = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0) {
      RememberForRemoval(temporary);
      AtomicFile file(resolved, temporary, descriptor);
      if (LockTemporary(descriptor)) return file;
    } else if (errno != EEXIST) {
      return WriteError(target, "cannot create a temporary file beside it", errno);
    }
  }
  return absl::InternalError(absl::StrCat(target, ": no free temporary name beside it"));
}

// Commit will rename: where no rename can be had, it is better to know now.
absl::Status AtomicFile::TryRename() {
  std::string other = NewTemporaryPath(FolderOf(temporary_));
  RememberForRemoval(other);
  if (rename(temporary_.c_str(), other.c_str()) != 0) {
    const int error = errno;
    ForgetForRemoval(other);
    return absl::FailedPreconditionError(
        absl::StrCat(target_, ": its folder allows no renaming (", std::strerror(error),
                     "), so no output can be put into place there; choose another folder"));
  }
  ForgetForRemoval(std::exchange(temporary_, std::move(other)));
  return absl::OkStatus();
}

void AtomicFile::TakeOverAccess() {
  if (const auto old = Stat(target_)) CopyAccess(target_, *old, descriptor_);
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
  ForgetForRemoval(temporary_);
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
  // A file system that cannot sync has lost nothing.
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP && errno != ENOSYS)
    return WriteError(target_, "cannot sync", errno);
  if (rename(temporary_.c_str(), target_.c_str()) != 0)
    return WriteError(target_, "cannot rename into place", errno);
  ForgetForRemoval(temporary_);
  close(std::exchange(descriptor_, -1));
  SyncFolder(target_);
  return absl::OkStatus();
}

std::vector<std::string> AtomicFile::TakeRemovedLeftovers() { return TakeRemoved(); }

}  // namespace needle::base
