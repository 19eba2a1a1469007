// base/output_place.h: where AtomicFile writes: whether a target can be written there, and what
// stands in its folder.
#ifndef NEEDLE_BASE_OUTPUT_PLACE_H_
#define NEEDLE_BASE_OUTPUT_PLACE_H_

#include <sys/stat.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace needle::base {

// "PATH: WHAT: the system's reason", with the code that fits `error`, an errno.
absl::Status WriteError(const std::string& path, const char* what, int error);

// Nothing when there is no such file.
std::optional<struct stat> Stat(const std::string& path);
// "." for a name alone.
std::string FolderOf(const std::string& path);
// The file that a write to `target` replaces: what a symbolic link points at, so that the link
// stays one. NotFound: it points at nothing.
absl::StatusOr<std::string> ResolveLink(const std::string& target);

// What can be seen of `target` without writing. Errors as of AtomicFile::CheckTargets.
absl::Status CheckPlace(const std::string& target);
// That no two of `targets` are one file, under whatever names (links, "./"), nor one of them and
// one of `inputs`; none of them need exist. InvalidArgument naming both.
absl::Status CheckDistinct(std::span<const std::string> targets,
                           std::span<const std::string> inputs);

// A name in `folder` that is no longer than file systems allow, whatever the target's is.
std::string NewTemporaryPath(const std::string& folder);
// Marks the temporary file as one of a living process. False: it was just removed by another
// process, which took it for a leftover.
bool LockTemporary(int descriptor);
// Removes temporaries in `folder` whose process is gone, on whatever machine it ran: nobody holds
// their lock. Any thread.
void RemoveLeftovers(const std::string& folder);
// Those removed since the last call. Any thread.
std::vector<std::string> TakeRemoved();

// Gives the file behind `descriptor` the owner, group, mode and access control list of the file at
// `path`, as far as the process may. A group that may not be given is not given its rights either.
void CopyAccess(const std::string& path, const struct stat& old, int descriptor);

}  // namespace needle::base

#endif  // NEEDLE_BASE_OUTPUT_PLACE_H_
