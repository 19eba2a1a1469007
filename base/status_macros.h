// base/status_macros.h: early return on a failed absl::Status or absl::StatusOr.
#ifndef NEEDLE_BASE_STATUS_MACROS_H_
#define NEEDLE_BASE_STATUS_MACROS_H_

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace needle::base {

// `status` with "context: " in front of its message; an OK status unchanged.
absl::Status WithContext(const absl::Status& status, std::string_view context);

}  // namespace needle::base

#define NEEDLE_CONCAT_INNER_(a, b) a##b
#define NEEDLE_CONCAT_(a, b) NEEDLE_CONCAT_INNER_(a, b)

// Returns from the function when `expression` (an absl::Status) is not OK.
#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status needle_status_ = (expression); !needle_status_.ok()) { \
      return needle_status_;                                                \
    }                                                                       \
  } while (false)

// Assigns the value of `expression` (an absl::StatusOr) to `target`, which may be a declaration, or
// returns its status.
#define ASSIGN_OR_RETURN(target, expression) \
  NEEDLE_ASSIGN_OR_RETURN_(NEEDLE_CONCAT_(needle_statusor_, __LINE__), target, expression)
#define NEEDLE_ASSIGN_OR_RETURN_(statusor, target, expression) \
  auto statusor = (expression);                                \
  if (!statusor.ok()) return std::move(statusor).status();     \
  target = *std::move(statusor)

#endif  // NEEDLE_BASE_STATUS_MACROS_H_
