// tests/support/test_checkpoint.h: a checkpoint in memory that tests change and write again.
#ifndef NEEDLE_TESTS_SUPPORT_TEST_CHECKPOINT_H_
#define NEEDLE_TESTS_SUPPORT_TEST_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/endian.h"
#include "base/half.h"
#include "nlohmann/json.hpp"
#include "tests/support/files.h"

namespace needle::tests {

// The checkpoint that most tests change, BF16 with 4 layers, and a leaf of it: [4, in, out].
inline constexpr char kPadCheckpoint[] = "golden/n3-pad/checkpoint.safetensors";
inline constexpr char kQProjLeaf[] = "stack/layers/block/self_attn/q_proj/kernel";
inline constexpr uint64_t kQProjIn = 192;
inline constexpr uint64_t kQProjOut = 48;

struct TestTensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

struct TestCheckpoint {
  std::map<std::string, TestTensor> tensors;
  std::map<std::string, std::string> metadata;

  // Reads a .safetensors below testdata/, which it trusts.
  static TestCheckpoint Load(std::string_view name) {
    const std::string file = ReadFile(Testdata(name));
    const auto length = base::LoadLe<uint64_t>(file.data());
    const auto header = nlohmann::json::parse(file.substr(8, length));
    TestCheckpoint result;
    for (const auto& [key, value] : header.items()) {
      if (key == "__metadata__") {
        result.metadata = value.get<std::map<std::string, std::string>>();
        continue;
      }
      const auto offsets = value["data_offsets"].get<std::vector<uint64_t>>();
      result.tensors[key] = {value["dtype"], value["shape"].get<std::vector<uint64_t>>(),
                             file.substr(8 + length + offsets[0], offsets[1] - offsets[0])};
    }
    return result;
  }

  // Makes every tensor F32, with the same values.
  void Widen() {
    for (auto& [name, tensor] : tensors) {
      if (tensor.dtype == "F32") continue;
      std::string wide;
      for (size_t i = 0; i < tensor.bytes.size(); i += 2) {
        const auto bits = base::LoadLe<uint16_t>(&tensor.bytes[i]);
        Append(wide, tensor.dtype == "BF16" ? base::F32FromBf16(bits) : base::F32FromF16(bits));
      }
      tensor.dtype = "F32";
      tensor.bytes = wide;
    }
  }

  template <typename T>
  static void Append(std::string& bytes, T value) {
    bytes.resize(bytes.size() + sizeof(T));
    base::StoreLe(&bytes[bytes.size() - sizeof(T)], value);
  }
  // Value number `index` of a tensor whose type is T's.
  template <typename T>
  void Set(const std::string& name, size_t index, T value) {
    base::StoreLe(&tensors.at(name).bytes.at(index * sizeof(T)), value);
  }
  float Get(const std::string& name, size_t index) const {
    return base::LoadLe<float>(&tensors.at(name).bytes.at(index * sizeof(float)));
  }
  void AddF32(const std::string& name, std::vector<uint64_t> shape,
              const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) Append(bytes, value);
    tensors[name] = {"F32", std::move(shape), bytes};
  }

  struct Layout {
    size_t padding = 0;     // spaces behind the header
    bool reversed = false;  // data in the reverse order of names
  };
  std::string Serialize(const Layout& layout) const {
    nlohmann::json header;
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::string data;
    const auto add = [&](const std::string& name, const TestTensor& tensor) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    };
    if (layout.reversed) {
      for (auto it = tensors.rbegin(); it != tensors.rend(); ++it) add(it->first, it->second);
    } else {
      for (const auto& [name, tensor] : tensors) add(name, tensor);
    }
    return Assemble(header.dump() + std::string(layout.padding, ' '), data);
  }
  void Write(const std::string& path) const { Write(path, {}); }
  void Write(const std::string& path, const Layout& layout) const {
    WriteFile(path, Serialize(layout));
  }

  static std::string Assemble(const std::string& header, const std::string& data) {
    std::string file;
    Append(file, uint64_t{header.size()});
    return file + header + data;
  }
};

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_TEST_CHECKPOINT_H_
