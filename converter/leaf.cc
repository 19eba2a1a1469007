#include "converter/leaf.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/endian.h"

namespace needle::converter {

std::optional<size_t> FindLeaf(const std::vector<Leaf>& leaves, std::string_view name) {
  const auto found = std::lower_bound(
      leaves.begin(), leaves.end(), name,
      [](const Leaf& leaf, std::string_view wanted) { return leaf.name < wanted; });
  if (found == leaves.end() || found->name != name) return std::nullopt;
  return static_cast<size_t>(found - leaves.begin());
}

std::optional<uint64_t> NumLeafValues(std::span<const uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t size : shape) {
    const auto product = base::CheckedMul(count, size);
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

std::string LeafShapeText(std::span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

double LeafValue(quant::SourceType type, const uint8_t* bytes) {
  if (type == quant::SourceType::kF64) return base::LoadLe<double>(bytes);
  float value = 0;
  quant::ConvertToF32({bytes, quant::SourceBytes(type)}, type, {&value, 1});
  return static_cast<double>(value);
}

}  // namespace needle::converter
