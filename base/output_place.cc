#include "base/output_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace needle::base {
namespace {

constexpr std::string_view kTemporaryPrefix = ".needle-build.";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr char kAclAttribute[] = "system.posix_acl_access";

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

// Whether something is mounted on the file at `path`, as containers bind single files.
bool IsMountPoint(const std::string& path) {
  struct statx info = {};
  if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &info) != 0) return false;
  return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

// One file, whatever it is called: by its number, or by its folder's and its name before it exists.
struct FileIdentity {
  dev_t device = 0;
  ino_t number = 0;
  std::string name = {};
  bool operator==(const FileIdentity&) const = default;
};

std::optional<FileIdentity> IdentityOf(const std::string& path) {
  if (const auto info = Stat(path)) return FileIdentity{info->st_dev, info->st_ino, {}};
  const auto folder = Stat(FolderOf(path));
  if (!folder) return std::nullopt;
  return FileIdentity{folder->st_dev, folder->st_ino, std::filesystem::path(path).filename()};
}

// What a write to `target` would make or replace; nothing where it cannot write.
std::optional<FileIdentity> TargetIdentity(const std::string& target) {
  const auto resolved = ResolveLink(target);
  return resolved.ok() ? IdentityOf(*resolved) : std::nullopt;
}

struct Removed {
  std::mutex mutex;
  std::vector<std::string> paths;
};

Removed& RemovedPaths() {
  static Removed removed;
  return removed;
}

// Whether no living process writes the temporary file at `path`; it is locked then as long as
// `descriptor` is open.
bool IsLeftover(int descriptor) {
  struct stat info = {};
  return fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
         flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

void RemoveIfLeftover(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  if (IsLeftover(descriptor) && unlink(path.c_str()) == 0) {
    const std::lock_guard lock(RemovedPaths().mutex);
    RemovedPaths().paths.push_back(path);
  }
  close(descriptor);
}

// A replaced file's access control list, or none where it had none but the folder gives one.
void CopyAcl(const std::string& path, int descriptor) {
  std::vector<char> list(1 << 16);
  const ssize_t size = getxattr(path.c_str(), kAclAttribute, list.data(), list.size());
  if (size >= 0) {
    fsetxattr(descriptor, kAclAttribute, list.data(), static_cast<size_t>(size), 0);
  } else if (errno == ENODATA) {
    fremovexattr(descriptor, kAclAttribute);
  }
}

}  // namespace

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

absl::StatusOr<std::string> ResolveLink(const std::string& target) {
  struct stat info = {};
  if (lstat(target.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return target;
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(target, error);
  if (error) return absl::NotFoundError(absl::StrCat(target, ": is a symbolic link to nothing"));
  return resolved.string();
}

absl::Status CheckPlace(const std::string& target) {
  if (target.empty()) return absl::InvalidArgumentError("the output path is empty");
  ASSIGN_OR_RETURN(const std::string resolved, ResolveLink(target));
  RETURN_IF_ERROR(CheckFolder(resolved));
  if (!std::filesystem::path(target).has_filename()) {
    return absl::InvalidArgumentError(absl::StrCat(target, ": is a folder, want a file name"));
  }
  const auto info = Stat(resolved);
  if (!info) return absl::OkStatus();
  RETURN_IF_ERROR(CheckExisting(target, *info));
  if (IsMountPoint(resolved)) {
    return absl::FailedPreconditionError(
        absl::StrCat(target,
                     ": is a mount point, which cannot be replaced; write to another file and copy "
                     "it there"));
  }
  return absl::OkStatus();
}

absl::Status CheckDistinct(std::span<const std::string> targets,
                           std::span<const std::string> inputs) {
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto identity = TargetIdentity(targets[i]);
    if (!identity) continue;
    for (const std::string& input : inputs) {
      if (Stat(input) && IdentityOf(input) == identity) {
        return absl::InvalidArgumentError(
            absl::StrCat(targets[i], ": the output is the same file as the input ", input));
      }
    }
    for (const std::string& other : targets.first(i)) {
      if (TargetIdentity(other) == identity) {
        return absl::InvalidArgumentError(
            absl::StrCat(targets[i], ": is the same file as the output ", other));
      }
    }
  }
  return absl::OkStatus();
}

std::string NewTemporaryPath(const std::string& folder) {
  static std::atomic<uint32_t> counter = 0;
  return absl::StrCat(folder, "/", std::string(kTemporaryPrefix), getpid(), ".",
                      counter.fetch_add(1), std::string(kTemporarySuffix));
}

bool LockTemporary(int descriptor) {
  // Where a file system has no locks, nobody takes the file for a leftover either.
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat info = {};
  return fstat(descriptor, &info) != 0 || info.st_nlink > 0;
}

void RemoveLeftovers(const std::string& folder) {
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kTemporaryPrefix) && name.ends_with(kTemporarySuffix))
      RemoveIfLeftover(absl::StrCat(folder, "/", std::string(name)));
  }
  closedir(entries);
}

std::vector<std::string> TakeRemoved() {
  const std::lock_guard lock(RemovedPaths().mutex);
  return std::exchange(RemovedPaths().paths, {});
}

void CopyAccess(const std::string& path, const struct stat& old, int descriptor) {
  struct stat now = {};
  if (fstat(descriptor, &now) != 0) return;
  const bool has_owner =
      now.st_uid == old.st_uid || fchown(descriptor, old.st_uid, static_cast<gid_t>(-1)) == 0;
  const bool has_group =
      now.st_gid == old.st_gid || fchown(descriptor, static_cast<uid_t>(-1), old.st_gid) == 0;
  mode_t mode = old.st_mode & 07777;
  if (!has_owner) mode &= ~mode_t{S_ISUID};
  if (!has_group) mode &= ~mode_t{S_ISGID | S_IRWXG} | (mode & S_IRWXO) << 3;
  fchmod(descriptor, mode);
  if (has_group) CopyAcl(path, descriptor);
}

}  // namespace needle::base
