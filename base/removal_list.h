// base/removal_list.h: what must not stay when the program ends before its work is done. A list
// that a signal handler may walk.
#ifndef NEEDLE_BASE_REMOVAL_LIST_H_
#define NEEDLE_BASE_REMOVAL_LIST_H_

#include <string>

namespace needle::base {

// Puts a file or a folder on the list, or takes it off. Any thread. Beyond 128 entries, and for
// paths longer than the system opens, Remember does nothing.
void RememberForRemoval(const std::string& path);
void ForgetForRemoval(const std::string& path);

// Removes the files that are listed, then the folders, if they are empty. Async-signal-safe.
void RemoveRemembered() noexcept;

}  // namespace needle::base

#endif  // NEEDLE_BASE_REMOVAL_LIST_H_
