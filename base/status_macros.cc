#include "base/status_macros.h"

#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace needle::base {

absl::Status WithContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(AbslView(context), ": ", status.message())};
}

}  // namespace needle::base
