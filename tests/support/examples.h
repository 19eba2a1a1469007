// tests/support/examples.h: text to calibrate with.
#ifndef NEEDLE_TESTS_SUPPORT_EXAMPLES_H_
#define NEEDLE_TESTS_SUPPORT_EXAMPLES_H_

#include <cstddef>
#include <sstream>
#include <string>

#include "tests/support/files.h"

namespace needle::tests {

// The first `count` examples of the fixture's calibration text.
inline std::string FirstExamples(const TempFolder& folder, size_t count) {
  std::istringstream lines(ReadFile(Testdata("fixture/calibration.jsonl")));
  std::string text, line;
  for (size_t i = 0; i < count && std::getline(lines, line); ++i) text += line + "\n";
  const std::string path = folder.File("examples" + std::to_string(count) + ".jsonl");
  WriteFile(path, text);
  return path;
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_EXAMPLES_H_
