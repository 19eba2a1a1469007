#include "converter/verify/geometry_differences.h"

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "format/header.h"

namespace needle::verify {

std::vector<std::string> GeometryDifferences(const format::Geometry& found,
                                             const format::Geometry& wanted) {
  if (found.generation != wanted.generation) {
    return {absl::StrCat("generation: ", format::GenerationName(found.generation), ", want ",
                         format::GenerationName(wanted.generation))};
  }
  // Counts of tensors depend on heads and tokenizer too: the tensor lists are compared for that.
  const std::vector<std::string> found_values = format::HeaderValues({.geometry = found});
  const std::vector<std::string> wanted_values = format::HeaderValues({.geometry = wanted});
  const auto fields = format::HeaderFields(found.generation);
  std::vector<std::string> differences;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (found_values[i] == wanted_values[i]) continue;
    differences.push_back(absl::StrCat(base::AbslView(fields[i].name), ": ", found_values[i],
                                       ", want ", wanted_values[i]));
  }
  return differences;
}

}  // namespace needle::verify
