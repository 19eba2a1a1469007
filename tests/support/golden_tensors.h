// tests/support/golden_tensors.h: reads the golden .safetensors files (tests only: trusts them).
#ifndef NEEDLE_TESTS_SUPPORT_GOLDEN_TENSORS_H_
#define NEEDLE_TESTS_SUPPORT_GOLDEN_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/endian.h"
#include "nlohmann/json.hpp"
#include "tests/support/files.h"

namespace needle::tests {

template <typename T>
struct GoldenTensor {
  std::vector<size_t> shape;
  std::vector<T> values;  // row-major
};

// All F32 and I32 tensors of a file below testdata/, such as
// "golden/n3-odd/cq2.kernel.safetensors". Throws when the file is not there or has other types: a
// test that needs it must fail.
class GoldenTensors {
 public:
  explicit GoldenTensors(std::string_view name) {
    const std::string data = ReadFile(Testdata(name));
    if (data.size() < 8) throw std::runtime_error("no golden file " + std::string(name));
    const auto header_size = base::LoadLe<uint64_t>(data.data());
    const auto header = nlohmann::json::parse(data.substr(8, header_size));
    for (const auto& [key, value] : header.items()) {
      if (key == "__metadata__") continue;
      const std::string dtype = value.at("dtype");
      const auto offsets = value.at("data_offsets").get<std::vector<size_t>>();
      const auto shape = value.at("shape").get<std::vector<size_t>>();
      const std::string bytes =
          data.substr(8 + header_size + offsets.at(0), offsets.at(1) - offsets.at(0));
      if (dtype == "F32") {
        floats_[key] = {shape, Values<float>(bytes)};
      } else if (dtype == "I32") {
        ints_[key] = {shape, Values<int32_t>(bytes)};
      } else {
        throw std::runtime_error("golden tensor " + key + " is of type " + dtype);
      }
    }
  }

  // Throws when there is no such tensor.
  const GoldenTensor<float>& Floats(const std::string& key) const { return floats_.at(key); }
  const GoldenTensor<int32_t>& Ints(const std::string& key) const { return ints_.at(key); }
  bool Has(const std::string& key) const { return floats_.contains(key) || ints_.contains(key); }

  const std::map<std::string, GoldenTensor<float>>& floats() const { return floats_; }

 private:
  template <typename T>
  static std::vector<T> Values(std::string_view bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = base::LoadLe<T>(bytes.data() + i * sizeof(T));
    }
    return values;
  }

  std::map<std::string, GoldenTensor<float>> floats_;
  std::map<std::string, GoldenTensor<int32_t>> ints_;
};

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_GOLDEN_TENSORS_H_
