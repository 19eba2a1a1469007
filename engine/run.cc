#include "engine/run.h"

#include <algorithm>

#include "engine/vector_ops.h"

namespace needle::engine {

void History::Restore(std::span<float> buffer) const {
  std::copy(rows_.begin(), rows_.end(), buffer.begin());
}

void History::Save(std::span<const float> buffer, size_t count) {
  std::copy_n(buffer.begin() + static_cast<ptrdiff_t>(count * width_), rows_.size(), rows_.begin());
}

void History::Clear() { std::fill(rows_.begin(), rows_.end(), 0.0F); }

void CausalConv(std::span<const float> taps, size_t width, size_t dilation, const float* row,
                float* y) {
  const VectorOps& ops = Ops();
  ops.product(taps.data(), row, y, width);
  for (size_t j = 1; j * width < taps.size(); ++j) {
    ops.add_product(&taps[j * width], row - j * dilation * width, y, width);
  }
}

}  // namespace needle::engine
