#include "format/geometry.h"

#include <bit>

namespace needle::format {

std::string GenerationName(Generation generation) {
  return generation == Generation::kNeedle2 ? "Needle 2" : "Needle 3";
}

uint32_t Geometry::HadaA() const {
  const auto log2_n = static_cast<uint32_t>(std::bit_width(hada_n)) - 1;
  return uint32_t{1} << (log2_n / 2);
}

uint32_t Geometry::EngramHeadsPerOrder() const {
  if (engram_orders.empty()) return 0;
  return num_engram_tables / static_cast<uint32_t>(engram_orders.size());
}

uint32_t NextPowerOfTwo(uint32_t value) { return std::bit_ceil(value); }

}  // namespace needle::format
