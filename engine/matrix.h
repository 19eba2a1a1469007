// engine/matrix.h: the matrices of the trunk and products with them, in each numerics. Internal to
// engine/.
#ifndef NEEDLE_ENGINE_MATRIX_H_
#define NEEDLE_ENGINE_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "engine/numerics.h"
#include "engine/observer.h"
#include "engine/weight_source.h"
#include "quant/encode.h"
#include "quant/kernel.h"

namespace needle::engine {

// The input vectors of some products: row-major [count, cols] floats, and in kernel numerics their
// int8 form, made once for all matrices that read them.
class Activations {
 public:
  void Assign(std::span<const float> x, size_t count, size_t cols);

  std::span<const float> x() const { return x_; }
  size_t count() const { return count_; }
  size_t cols() const { return cols_; }
  // Makes the int8 form in groups of `group`, unless that is what it has.
  void Quantize(uint32_t group);
  const quant::QuantizedActivations& quantized() const { return quantized_; }

 private:
  std::span<const float> x_;
  size_t count_ = 0;
  size_t cols_ = 0;
  uint32_t quantized_group_ = 0;  // 0: not quantised yet
  quant::QuantizedActivations quantized_;
};

// A CQ matrix [rows, cols]: packed in kernel numerics, decoded otherwise. Packed ones refer to the
// source's bytes.
class Matrix {
 public:
  // InvalidArgument: kernel numerics, and the source does not hold `id` packed.
  static absl::StatusOr<Matrix> Load(const WeightSource& source, format::TensorId id,
                                     Numerics numerics);

  format::TensorId id() const { return id_; }
  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  // The group in which activations must be quantised; 0 when they need not be.
  uint32_t group() const { return kernel_.has_value() ? kernel_->group() : 0; }

  // y[v * y_stride + r] for rows [first, first + count) and each vector v.
  void Multiply(const Activations& x, size_t first, size_t count, std::span<float> y,
                size_t y_stride) const;

 private:
  format::TensorId id_;
  size_t rows_ = 0;
  size_t cols_ = 0;
  std::vector<float> floats_;
  std::optional<quant::KernelMatrix> kernel_;
};

// Rows [first, first + rows) of a matrix times all activations: row r goes to column r of y (not
// r - first), rows of y being y_stride apart.
struct Product {
  const Matrix* matrix = nullptr;
  size_t first = 0;
  size_t rows = 0;
  std::span<float> y;
  size_t y_stride = 0;
};

// All products of the same activations, split over the pool's threads by rows. Tells `observer`
// (may be null).
void RunProducts(base::ThreadPool& pool, Observer* observer, Activations& x,
                 std::span<const Product> products);

// Rows of a CQ tensor decoded on demand: the embedding and the engram tables.
class RowTable {
 public:
  static absl::StatusOr<RowTable> Load(const WeightSource& source, format::TensorId id);

  size_t cols() const { return cols_; }
  // `row` must exist; `values` has cols() values.
  absl::Status Read(size_t row, std::span<float> values) const;

 private:
  size_t cols_ = 0;
  std::optional<format::CqView> view_;
  std::optional<quant::Codebook> codebook_;
  std::vector<float> floats_;  // all rows, when the source has them only so
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_MATRIX_H_
