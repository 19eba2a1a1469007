// tests/support/files.h: temporary folders and whole files for tests.
#ifndef NEEDLE_TESTS_SUPPORT_FILES_H_
#define NEEDLE_TESTS_SUPPORT_FILES_H_

#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace needle::tests {

// A folder of its own for one test, removed with all in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "needle-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string File(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Names of what is in the folder, sorted.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<uint8_t> ReadBytes(const std::string& path) {
  const std::string text = ReadFile(path);
  return {text.begin(), text.end()};
}

inline void WriteFile(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline void WriteBytes(const std::string& path, std::span<const uint8_t> bytes) {
  WriteFile(path, std::string(bytes.begin(), bytes.end()));
}

// A file below testdata/.
inline std::string Testdata(std::string_view name) {
  return std::string(NEEDLE_TESTDATA) + "/" + std::string(name);
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_FILES_H_
