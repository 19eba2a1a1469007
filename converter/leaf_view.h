// converter/leaf_view.h: rows of an archive tensor out of a leaf's values.
#ifndef NEEDLE_CONVERTER_LEAF_VIEW_H_
#define NEEDLE_CONVERTER_LEAF_VIEW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "converter/leaf.h"
#include "converter/leaf_map.h"

namespace needle::converter {

// A leaf as the matrix [rows, cols] that its binding makes of it. Immutable.
class LeafView {
 public:
  // `leaf` has a type and the shape that `binding` wants.
  LeafView(const Leaf& leaf, const LeafBinding& binding);

  quant::SourceType type() const { return type_; }
  uint64_t rows() const { return rows_; }
  uint64_t cols() const { return cols_; }

  // Rows [first, first + count) in f32, row-major; count * cols() values. `data` is the leaf's.
  void Read(const LeafData& data, uint64_t first, uint64_t count, std::span<float> values) const;

  // Of each value of a row, its number in the leaf's row-major order and its offset in data.bytes
  // (both cols() long).
  struct Place {
    uint64_t index;
    uint64_t byte;
  };
  std::vector<Place> Places(const LeafData& data, uint64_t row) const;

 private:
  // Values from one index to the next, on each axis of the leaf.
  using Strides = std::vector<uint64_t>;

  Strides StridesOf(bool fortran_order) const;
  uint64_t RowOffset(const Strides& strides, uint64_t row) const;
  uint64_t ColOffset(const Strides& strides, uint64_t col) const;
  bool HasContiguousRows(const Strides& strides) const;
  bool HasContiguousCols(const Strides& strides) const;
  void ReadRow(const LeafData& data, const Strides& strides, uint64_t row,
               std::span<float> values) const;
  void ReadTransposed(const LeafData& data, const Strides& strides, uint64_t first, uint64_t count,
                      std::span<float> values) const;

  quant::SourceType type_;
  std::vector<uint64_t> shape_;
  std::vector<LeafAxis> row_axes_;  // outermost first
  std::vector<LeafAxis> col_axes_;  // one, or none for a single value
  uint64_t layer_ = 0;
  uint64_t rows_ = 1;
  uint64_t cols_ = 1;
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_LEAF_VIEW_H_
