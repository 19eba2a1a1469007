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

// A file written under a temporary name in the target's folder and renamed into place by Commit.
// Destroyed without Commit (an error, an early return), it removes what it wrote: an older file at
// the target stays as it was.
class AtomicFile {
 public:
  // Checks before any work that `target` can be written: its folder exists and is writable, it is
  // not a folder or device, and it is none of `inputs` (also through a symbolic or hard link).
  // Writes nothing. InvalidArgument or NotFound or FailedPrecondition, naming the path and the
  // reason.
  static absl::Status CheckTarget(const std::string& target, std::span<const std::string> inputs);

  // Opens the temporary sibling. Errors as of CheckTarget without inputs.
  static absl::StatusOr<AtomicFile> Create(const std::string& target);

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

  // Syncs, renames to the target, syncs the folder. Nothing may be called afterwards.
  absl::Status Commit();

  const std::string& target() const { return target_; }
  const std::string& temporary_path() const { return temporary_; }

  // Removes the temporary files of every AtomicFile that is open. Async-signal-safe: for handlers
  // of fatal signals.
  static void RemoveAllTemporaries() noexcept;

 private:
  AtomicFile(std::string target, std::string temporary, int descriptor);
  void Abandon() noexcept;

  std::string target_;
  std::string temporary_;
  int descriptor_ = -1;
  uint64_t appended_ = 0;
  uint64_t written_ = 0;  // by all calls; updated atomically
};

}  // namespace needle::base

#endif  // NEEDLE_BASE_ATOMIC_FILE_H_
