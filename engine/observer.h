// engine/observer.h: what a forward run shows to those who collect statistics of it.
#ifndef NEEDLE_ENGINE_OBSERVER_H_
#define NEEDLE_ENGINE_OBSERVER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/schema.h"

namespace needle::engine {

// The inputs of one product: rows [first_row, first_row + num_rows) of matrix `id` applied to
// `count` activation vectors.
struct ProductInput {
  format::TensorId id;
  uint64_t first_row = 0;
  uint64_t num_rows = 0;
  size_t count = 0;
  size_t cols = 0;
  std::span<const float> x;  // row-major [count, cols], as it enters the product (after Q in a8)
};

// Called on the thread that runs the session, in the order of the model, once a chunk of positions.
// Spans are valid during the call only. Each function does nothing by default.
class Observer {
 public:
  virtual ~Observer() = default;

  // The positions that the next calls are about: [first_position, first_position + tokens.size()).
  virtual void OnTokens(size_t first_position, std::span<const uint32_t> tokens) {
    (void)first_position, (void)tokens;
  }

  // Before each product with a CQ matrix of the trunk: projections, one layer's rows of mhc_phi_*,
  // engram key and value projections, and the tied head (kEmbedding; only at positions whose logits
  // are asked for). Matrices that read the same vectors are told one after another with the same
  // span.
  virtual void OnProduct(const ProductInput& input) { (void)input; }

  // The rows gathered at site number `site`: row-major [positions, tables], each a row of the
  // site's `tables` tensor, or kNoRow where the position is too early for the order.
  static constexpr uint32_t kNoRow = 0xFFFFFFFFU;
  virtual void OnEngramGather(uint32_t site, size_t tables, std::span<const uint32_t> rows) {
    (void)site, (void)tables, (void)rows;
  }
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_OBSERVER_H_
