#include "format/kv_window.h"

#include <algorithm>
#include <bit>

namespace needle::format {
namespace {

constexpr int64_t kBudgetBytes = 23 * 1024 * 1024 / 2;  // 11.5 MiB
constexpr int64_t kLeastWindow = 160;
constexpr int64_t kWindowStep = 32;

// Quantised values of one position with a scale of four bytes for each 32.
int64_t CacheBytes(int64_t values) { return values + 4 * (values / 32); }

int64_t LayerBytes(const Geometry& geometry) {
  return CacheBytes(int64_t{geometry.num_kv_heads} * geometry.qk_head_dim) +
         CacheBytes(int64_t{geometry.num_kv_heads} * geometry.v_head_dim);
}

// Rounds towards minus infinity; `divisor` is above 0.
int64_t FloorDivide(int64_t value, int64_t divisor) {
  return value / divisor - (value % divisor < 0 ? 1 : 0);
}

// The product where it is within the budget, some number above the budget otherwise: which one
// never shows in a window, and these do not overflow.
int64_t BytesOrOverBudget(int64_t position_bytes, int64_t positions) {
  constexpr int64_t kOver = kBudgetBytes + 1;
  return std::min(position_bytes, kOver) * std::min(positions, kOver);
}

// The positions that `bytes` hold at `position_bytes` each, in whole steps and within bounds.
int64_t WindowFor(int64_t bytes, int64_t position_bytes, int64_t max_seq_len) {
  const int64_t fitting = FloorDivide(bytes, position_bytes);
  const int64_t stepped = FloorDivide(fitting, kWindowStep) * kWindowStep;
  return std::max(kLeastWindow, std::min(stepped, max_seq_len));
}

}  // namespace

uint32_t BudgetKvWindow(const Geometry& geometry) {
  const int64_t layers = geometry.num_layers;
  const int64_t globals = std::popcount(geometry.global_mask);
  const int64_t max_seq_len = geometry.max_seq_len;
  const int64_t layer_bytes = LayerBytes(geometry);
  const int64_t site_bytes =
      static_cast<int64_t>(geometry.engram_sites.size()) * CacheBytes(geometry.d_model);
  if (geometry.sliding_window == 0) {
    return static_cast<uint32_t>(
        WindowFor(kBudgetBytes, layers * layer_bytes + site_bytes, max_seq_len));
  }
  const int64_t local = std::min<int64_t>(geometry.sliding_window, max_seq_len);
  const int64_t fixed = BytesOrOverBudget((layers - globals) * layer_bytes + site_bytes, local);
  if (globals == 0) {
    return static_cast<uint32_t>(fixed <= kBudgetBytes ? max_seq_len
                                                       : std::max(kLeastWindow, local));
  }
  return static_cast<uint32_t>(WindowFor(kBudgetBytes - fixed, globals * layer_bytes, max_seq_len));
}

uint32_t EffectiveKvWindow(const Geometry& geometry, uint32_t configured) {
  const uint32_t budget = BudgetKvWindow(geometry);
  return configured > 0 ? std::min(budget, configured) : budget;
}

uint32_t SlicedKvWindow(const Geometry& full, const Geometry& sliced) {
  const uint32_t budget = BudgetKvWindow(sliced);
  return full.kv_window == BudgetKvWindow(full) ? budget : std::min(full.kv_window, budget);
}

}  // namespace needle::format
