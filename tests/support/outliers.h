// tests/support/outliers.h: the fixture's second checkpoint, put together from what differs.
#ifndef NEEDLE_TESTS_SUPPORT_OUTLIERS_H_
#define NEEDLE_TESTS_SUPPORT_OUTLIERS_H_

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/endian.h"
#include "nlohmann/json.hpp"
#include "tests/support/files.h"
#include "tests/support/golden_tensors.h"

namespace needle::tests {

// Writes outliers.safetensors, with tokenizer.model beside it, into `folder` and returns its path:
// the fixture's checkpoint with the rows of fixture/outlier-rows.safetensors in the place of its
// own. There, `channels` [layers, n] names n input channels of each layer, and every other tensor
// [layers, n, ...] holds the leaf's rows of those channels.
inline std::string WriteOutliersCheckpoint(const TempFolder& folder) {
  std::string data = ReadFile(Testdata("fixture/checkpoint.safetensors"));
  const auto header_size = base::LoadLe<uint64_t>(data.data());
  const auto header = nlohmann::json::parse(data.substr(8, header_size));
  const GoldenTensors rows("fixture/outlier-rows.safetensors");
  const auto& channels = rows.Ints("channels");
  for (const auto& [name, tensor] : rows.floats()) {
    const auto& entry = header.at(name);
    const auto d_model = entry.at("shape").at(1).get<size_t>();
    const size_t layers = channels.shape.at(0);
    const size_t width = tensor.values.size() / channels.values.size();
    const size_t start = 8 + header_size + entry.at("data_offsets").at(0).get<size_t>();
    for (size_t i = 0; i < channels.values.size(); ++i) {
      const size_t layer = i / (channels.values.size() / layers);
      const size_t row = layer * d_model + static_cast<size_t>(channels.values[i]);
      std::memcpy(&data.at(start + row * width * sizeof(float)), &tensor.values[i * width],
                  width * sizeof(float));
    }
  }
  WriteFile(folder.File("outliers.safetensors"), data);
  std::filesystem::copy_file(Testdata("fixture/tokenizer.model"), folder.File("tokenizer.model"));
  return folder.File("outliers.safetensors");
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_OUTLIERS_H_
