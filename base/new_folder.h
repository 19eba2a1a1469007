// base/new_folder.h: a folder that is made for what a program writes, and that goes with it.
#ifndef NEEDLE_BASE_NEW_FOLDER_H_
#define NEEDLE_BASE_NEW_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace needle::base {

// Destroyed without Keep, or when the program is interrupted, it removes the folders that it made,
// as far as they are empty.
class NewFolder {
 public:
  // Makes the folder `path` and those above it that do not exist. NotFound: something else is in
  // the way; FailedPrecondition and others as of AtomicFile: it cannot be made.
  static absl::StatusOr<NewFolder> Make(const std::string& path);

  NewFolder(NewFolder&& other) noexcept;
  NewFolder& operator=(NewFolder&&) = delete;
  ~NewFolder();

  // Whether it did not exist.
  bool made() const { return !made_.empty(); }
  void Keep();

 private:
  NewFolder() = default;

  std::vector<std::string> made_;  // from the outermost
};

}  // namespace needle::base

#endif  // NEEDLE_BASE_NEW_FOLDER_H_
