// base/atomic_file.h: output files by the rules of the specification's checkpoint page, "Output
// files".
#ifndef NEEDLE_BASE_ATOMIC_FILE_H_
#define NEEDLE_BASE_ATOMIC_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace needle::base {

// A file written under a temporary name in the target's folder and renamed into place by Commit;
// until then the temporary one is on the removal list. Destroyed without Commit (an error, an early
// return), it removes what it wrote: an older file at the target stays as it was. A file that is
// replaced passes on its mode and, as far as the process may, its owner, group and access control
// list; a new one has the mode that the umask gives.
class AtomicFile {
 public:
  // Checks before any work that each of `targets` can be written: its folder exists, files can be
  // made and renamed there, it is not a folder, a device or a mount point, and it is none of
  // `inputs` and no other of `targets`, under whatever name (links, "./"). Leaves nothing.
  // InvalidArgument or NotFound or FailedPrecondition, naming the path and the reason.
  static absl::Status CheckTargets(std::span<const std::string> targets,
                                   std::span<const std::string> inputs);
  static absl::Status CheckTarget(const std::string& target, std::span<const std::string> inputs) {
    return CheckTargets({&target, 1}, inputs);
  }

  // Opens the temporary sibling, which no other user may read before an older file's mode says so.
  // Removes the temporaries of processes that were killed. Errors as of CheckTarget.
  static absl::StatusOr<AtomicFile> Create(const std::string& target);

  // The temporaries of killed processes that Create and CheckTargets removed since the last call.
  // Any thread.
  static std::vector<std::string> TakeRemovedLeftovers();

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  // Appends at the end of what was appended so far. ResourceExhausted or Internal with path and the
  // system's reason.
  absl::Status Append(std::span<const uint8_t> bytes);
  // Writes at `offset` from the start. May be called by several threads at once for ranges that do
  // not overlap.
  absl::Status WriteAt(uint64_t offset, std::span<const uint8_t> bytes);
  // Makes the file `size` bytes long; what was not written reads as zero bytes.
  absl::Status Resize(uint64_t size);

  // Syncs, where the file system can, renames to the target, syncs the folder. Nothing may be
  // called afterwards.
  absl::Status Commit();

  const std::string& target() const { return target_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  AtomicFile(std::string target, std::string temporary, int descriptor);
  static absl::StatusOr<AtomicFile> OpenTemporary(const std::string& target,
                                                  const std::string& resolved, unsigned mode);
  absl::Status TryRename();
  void TakeOverAccess();
  void Abandon() noexcept;

  std::string target_;
  std::string temporary_;
  int descriptor_ = -1;
  uint64_t appended_ = 0;
  uint64_t written_ = 0;  // by all calls; updated atomically
};

}  // namespace needle::base

#endif  // NEEDLE_BASE_ATOMIC_FILE_H_
