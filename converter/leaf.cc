#include "converter/leaf.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/endian.h"

namespace needle::converter {

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
