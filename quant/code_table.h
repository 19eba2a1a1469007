// quant/code_table.h: a codebook in f64, for choices that go beyond plain rounding.
#ifndef NEEDLE_QUANT_CODE_TABLE_H_
#define NEEDLE_QUANT_CODE_TABLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/half.h"
#include "quant/codebook.h"

namespace needle::quant {

// Entries and the midpoints between neighbours. A value type.
class CodeTable {
 public:
  explicit CodeTable(const Codebook& codebook) : levels_(codebook.entries().size()) {
    std::copy(codebook.entries().begin(), codebook.entries().end(), entries_.begin());
    for (size_t k = 0; k + 1 < levels_; ++k) middles_[k] = (entries_[k] + entries_[k + 1]) / 2;
  }

  double operator[](size_t code) const { return entries_[code]; }
  std::span<const double> middles() const { return std::span(middles_).first(levels_ - 1); }
  // The code of the entry nearest to `unit`, the lower one on a tie.
  uint8_t Nearest(double unit) const {
    uint32_t code = 0;
    for (const double middle : middles()) code += middle < unit ? 1U : 0U;
    return static_cast<uint8_t>(code);
  }

 private:
  size_t levels_;
  std::array<double, 16> entries_{};
  std::array<double, 16> middles_{};
};

// The f16 nearest to `norm` >= 0, at most the largest finite one, and what it stands for.
inline uint16_t NormBits(double norm) {
  return base::F16FromF32(std::min(static_cast<float>(norm), base::kMaxF16));
}
inline double NormValue(uint16_t bits) { return static_cast<double>(base::F32FromF16(bits)); }

// The smallest divisor of a direction: cactus-quants.md, "Encoding one group", step 3.
inline constexpr double kSmallestNorm = 1e-12;

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_CODE_TABLE_H_
