#include "base/new_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/output_place.h"
#include "base/removal_list.h"
#include "base/status_macros.h"

namespace needle::base {

absl::StatusOr<NewFolder> NewFolder::Make(const std::string& path) {
  NewFolder folder;
  if (path.empty()) return absl::InvalidArgumentError("the name of the folder is empty");
  std::filesystem::path walked;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    walked /= part;
    const std::string name = walked.string();
    if (const auto info = Stat(name)) {
      if (!S_ISDIR(info->st_mode))
        return absl::NotFoundError(absl::StrCat(path, ": ", name, " is not a folder"));
      continue;
    }
    if (mkdir(name.c_str(), 0777) == 0) {
      RememberForRemoval(name);
      folder.made_.push_back(name);
    } else if (errno != EEXIST) {
      return WriteError(path, "cannot make the folder", errno);
    }
  }
  return folder;
}

NewFolder::NewFolder(NewFolder&& other) noexcept : made_(std::exchange(other.made_, {})) {}

NewFolder::~NewFolder() {
  for (; !made_.empty(); made_.pop_back()) {
    ForgetForRemoval(made_.back());
    rmdir(made_.back().c_str());
  }
}

void NewFolder::Keep() {
  for (const std::string& name : made_) ForgetForRemoval(name);
  made_.clear();
}

}  // namespace needle::base
