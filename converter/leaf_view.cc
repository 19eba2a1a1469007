#include "converter/leaf_view.h"

#include <algorithm>

namespace needle::converter {
namespace {

uint64_t AxisSize(const LeafAxis& axis, std::span<const uint64_t> shape) {
  return axis.indices.empty() ? shape[axis.leaf_axis] : axis.indices.size();
}

uint64_t AxisOffset(const LeafAxis& axis, std::span<const uint64_t> strides, uint64_t i) {
  return (axis.indices.empty() ? i : axis.indices[i]) * strides[axis.leaf_axis];
}

}  // namespace

LeafView::LeafView(const Leaf& leaf, const LeafBinding& binding)
    : type_(*leaf.type),
      shape_(leaf.shape),
      row_axes_(binding.axes),
      layer_(binding.layer.value_or(0)) {
  if (!row_axes_.empty()) {
    col_axes_.push_back(row_axes_.back());
    row_axes_.pop_back();
    cols_ = AxisSize(col_axes_.front(), shape_);
  }
  for (const LeafAxis& axis : row_axes_) rows_ *= AxisSize(axis, shape_);
}

LeafView::Strides LeafView::StridesOf(bool fortran_order) const {
  Strides strides(shape_.size());
  uint64_t stride = 1;
  for (size_t i = 0; i < shape_.size(); ++i) {
    const size_t axis = fortran_order ? i : shape_.size() - 1 - i;
    strides[axis] = stride;
    stride *= shape_[axis];
  }
  return strides;
}

// A leaf with a layer axis that no loop runs over has it as axis 0.
uint64_t LeafView::RowOffset(const Strides& strides, uint64_t row) const {
  uint64_t offset = strides.empty() ? 0 : layer_ * strides[0];
  for (size_t i = row_axes_.size(); i-- > 0;) {
    const uint64_t size = AxisSize(row_axes_[i], shape_);
    offset += AxisOffset(row_axes_[i], strides, row % size);
    row /= size;
  }
  return offset;
}

uint64_t LeafView::ColOffset(const Strides& strides, uint64_t col) const {
  return col_axes_.empty() ? 0 : AxisOffset(col_axes_.front(), strides, col);
}

bool LeafView::HasContiguousRows(const Strides& strides) const {
  return col_axes_.empty() ||
         (col_axes_.front().indices.empty() && strides[col_axes_.front().leaf_axis] == 1);
}

// Whether neighbouring rows lie side by side, as the columns of one matrix in memory.
bool LeafView::HasContiguousCols(const Strides& strides) const {
  if (row_axes_.empty() || col_axes_.empty()) return false;
  const LeafAxis& row = row_axes_.back();
  const LeafAxis& col = col_axes_.front();
  return row.indices.empty() && col.indices.empty() && strides[row.leaf_axis] == 1 &&
         strides[col.leaf_axis] == shape_[row.leaf_axis];
}

void LeafView::Read(const LeafData& data, uint64_t first, uint64_t count,
                    std::span<float> values) const {
  const Strides strides = StridesOf(data.fortran_order);
  if (!HasContiguousRows(strides) && HasContiguousCols(strides)) {
    return ReadTransposed(data, strides, first, count, values);
  }
  for (uint64_t i = 0; i < count; ++i) {
    ReadRow(data, strides, first + i, values.subspan(i * cols_, cols_));
  }
}

void LeafView::ReadRow(const LeafData& data, const Strides& strides, uint64_t row,
                       std::span<float> values) const {
  const uint64_t size = quant::SourceBytes(type_);
  const uint64_t start = RowOffset(strides, row);
  if (HasContiguousRows(strides)) {
    quant::ConvertToF32(data.bytes.subspan(start * size, cols_ * size), type_, values);
    return;
  }
  for (uint64_t col = 0; col < cols_; ++col) {
    const uint64_t at = (start + ColOffset(strides, col)) * size;
    quant::ConvertToF32(data.bytes.subspan(at, size), type_, values.subspan(col, 1));
  }
}

// Rows are columns of matrices [cols_, width] in memory, as many at a time as lie in one matrix.
void LeafView::ReadTransposed(const LeafData& data, const Strides& strides, uint64_t first,
                              uint64_t count, std::span<float> values) const {
  const uint64_t size = quant::SourceBytes(type_);
  const uint64_t width = shape_[row_axes_.back().leaf_axis];
  for (uint64_t row = first; row < first + count;) {
    const uint64_t column = row % width;
    const uint64_t run = std::min(width - column, first + count - row);
    const uint64_t start = RowOffset(strides, row - column) * size;
    quant::TransposeToF32(data.bytes.subspan(start, width * cols_ * size), type_, cols_, width,
                          column, run, values.subspan((row - first) * cols_, run * cols_));
    row += run;
  }
}

std::vector<LeafView::Place> LeafView::Places(const LeafData& data, uint64_t row) const {
  const Strides logical = StridesOf(false);
  const Strides stored = StridesOf(data.fortran_order);
  const uint64_t size = quant::SourceBytes(type_);
  std::vector<Place> places(cols_);
  for (uint64_t col = 0; col < cols_; ++col) {
    places[col] = {RowOffset(logical, row) + ColOffset(logical, col),
                   (RowOffset(stored, row) + ColOffset(stored, col)) * size};
  }
  return places;
}

}  // namespace needle::converter
