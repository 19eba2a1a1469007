#include "base/json.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/strings.h"

namespace needle::base {
namespace {

// Builds the value and refuses what the library's own builder lets pass: repeated keys and deep
// nesting.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(int max_depth) : max_depth_(static_cast<size_t>(max_depth)) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary values are not JSON"); }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second)
      return Fail(absl::StrCat("key \"", name, "\" is given twice"));
    level.key = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string what = error.what();
    const size_t start = what.find("] ");
    return Fail(absl::StrCat(start == std::string::npos ? what : what.substr(start + 2), " (byte ",
                             position, ")"));
  }

  Json TakeResult() { return std::move(result_); }
  const std::string& error() const { return error_; }

 private:
  struct Level {
    Json value;
    std::string key;
    std::set<std::string> keys;
  };

  bool Fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  bool Open(Json value) {
    if (levels_.size() == max_depth_) return Fail(absl::StrCat("nested deeper than ", max_depth_));
    levels_.push_back({std::move(value), {}, {}});
    return true;
  }

  bool Close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return Add(std::move(value));
  }

  template <typename T>
  bool Add(T&& value) {
    if (levels_.empty()) {
      result_ = Json(std::forward<T>(value));
    } else if (Level& level = levels_.back(); level.value.is_object()) {
      // Straight into the vector under the ordered map: its own insertion searches all keys each
      // time.
      level.value.get_ref<Json::object_t&>().emplace_back(level.key, Json(std::forward<T>(value)));
    } else {
      level.value.push_back(Json(std::forward<T>(value)));
    }
    return true;
  }

  size_t max_depth_;
  std::vector<Level> levels_;
  Json result_;
  std::string error_;
};

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text, int max_depth) {
  // No JSON text has one, and the parser would take it for the end.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    return absl::DataLossError(absl::StrCat("JSON: a NUL byte (byte ", nul + 1, ")"));
  StrictBuilder builder(max_depth);
  if (!Json::sax_parse(text, &builder))
    return absl::DataLossError(absl::StrCat("JSON: ", builder.error()));
  return builder.TakeResult();
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string DumpJsonPretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace needle::base
