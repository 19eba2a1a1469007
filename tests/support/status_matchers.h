// tests/support/status_matchers.h: assertions on absl::Status, which this Abseil does not bring.
#ifndef NEEDLE_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define NEEDLE_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace needle::tests {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// Status or StatusOr that is OK; prints the message when it is not.
MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).ok();
}

// Status or StatusOr of `code` whose message matches `message` (a string matcher).
MATCHER_P2(StatusIs, code, message, "") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).code() == code && ::testing::Matches(::testing::Matcher<std::string>(
                                             message))(std::string(StatusOf(arg).message()));
}

}  // namespace needle::tests

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::needle::tests::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::needle::tests::IsOk())

#endif  // NEEDLE_TESTS_SUPPORT_STATUS_MATCHERS_H_
