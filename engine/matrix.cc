#include "engine/matrix.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "engine/vector_ops.h"

namespace needle::engine {
namespace {

// Rows of one task: whole blocks of the kernel's rows, enough weights to be worth handing out, and
// some tasks for each thread, so that one that is held up does not hold up all.
size_t RowsPerTask(size_t rows, size_t cols, size_t threads) {
  if (threads == 1) return rows;
  constexpr size_t kBlockRows = 8;
  constexpr size_t kLeastWeights = 32768;
  constexpr size_t kTasksPerThread = 4;
  const size_t least = std::max(kLeastWeights / cols, rows / (kTasksPerThread * threads));
  return (least / kBlockRows + 1) * kBlockRows;
}

absl::StatusOr<const format::TensorSpec*> FindSpec(const WeightSource& source,
                                                   format::TensorId id) {
  const std::optional<size_t> position = source.schema().Find(id);
  if (!position.has_value()) {
    return absl::NotFoundError(absl::StrFormat("%s: no tensor %s %d", source.name(),
                                               std::string(format::RoleName(id.role)), id.index));
  }
  return &source.schema().tensors()[*position];
}

}  // namespace

void Activations::Assign(std::span<const float> x, size_t count, size_t cols) {
  x_ = x.first(count * cols);
  count_ = count;
  cols_ = cols;
  quantized_group_ = 0;
}

void Activations::Quantize(uint32_t group) {
  if (quantized_group_ == group) return;
  quantized_.Assign(x_, count_, cols_, group);
  quantized_group_ = group;
}

absl::StatusOr<Matrix> Matrix::Load(const WeightSource& source, format::TensorId id,
                                    Numerics numerics) {
  ASSIGN_OR_RETURN(const format::TensorSpec* const spec, FindSpec(source, id));
  Matrix matrix;
  matrix.id_ = id;
  matrix.rows_ = spec->shape[0];
  matrix.cols_ = spec->shape[1];
  if (numerics != Numerics::kKernel) {
    ASSIGN_OR_RETURN(matrix.floats_, source.Floats(id));
    return matrix;
  }
  const std::optional<format::CqView> view = source.Packed(id);
  if (!view.has_value()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: %s is not packed; kernel numerics run archives only", source.name(), spec->name));
  }
  absl::StatusOr<quant::KernelMatrix> kernel = quant::KernelMatrix::Make(*view);
  if (!kernel.ok()) return base::WithContext(kernel.status(), source.name() + ": " + spec->name);
  matrix.kernel_ = *std::move(kernel);
  return matrix;
}

void Matrix::Multiply(const Activations& x, size_t first, size_t count, std::span<float> y,
                      size_t y_stride) const {
  if (kernel_.has_value()) {
    kernel_->Multiply(x.quantized(), first, count, y, y_stride);
  } else {
    Ops().multiply(&floats_[first * cols_], count, cols_, x.x().data(), x.count(), &y[first],
                   y_stride);
  }
}

void RunProducts(base::ThreadPool& pool, Observer* observer, Activations& x,
                 std::span<const Product> products) {
  if (observer != nullptr) {
    for (const Product& product : products) {
      observer->OnProduct({.id = product.matrix->id(),
                           .first_row = product.first,
                           .num_rows = product.rows,
                           .count = x.count(),
                           .cols = x.cols(),
                           .x = x.x()});
    }
  }
  const auto run = [&x](std::span<const Product> some, size_t begin, size_t end) {
    for (const Product& product : some) {
      if (begin < product.rows && begin < end) {
        const size_t last = std::min(end, product.rows);
        product.matrix->Multiply(x, product.first + begin, last - begin, product.y,
                                 product.y_stride);
      }
      begin -= std::min(begin, product.rows);
      end -= std::min(end, product.rows);
    }
  };
  // Matrices of one group follow each other in one loop; an archive may mix groups.
  for (size_t i = 0; i < products.size();) {
    const uint32_t group = products[i].matrix->group();
    size_t rows = 0;
    size_t j = i;
    for (; j < products.size() && products[j].matrix->group() == group; ++j) {
      rows += products[j].rows;
    }
    if (group != 0) x.Quantize(group);
    const auto body = [&](size_t begin, size_t end, size_t) {
      run(products.subspan(i, j - i), begin, end);
    };
    pool.ParallelFor(rows, RowsPerTask(rows, x.cols(), pool.num_threads()), std::ref(body));
    i = j;
  }
}

absl::StatusOr<RowTable> RowTable::Load(const WeightSource& source, format::TensorId id) {
  ASSIGN_OR_RETURN(const format::TensorSpec* const spec, FindSpec(source, id));
  RowTable table;
  table.cols_ = spec->shape[1];
  table.view_ = source.Packed(id);
  if (!table.view_.has_value()) {
    ASSIGN_OR_RETURN(table.floats_, source.Floats(id));
    return table;
  }
  absl::StatusOr<quant::Codebook> codebook = quant::CodebookFor(*table.view_);
  if (!codebook.ok()) {
    return base::WithContext(codebook.status(), source.name() + ": " + spec->name);
  }
  table.codebook_ = *std::move(codebook);
  return table;
}

absl::Status RowTable::Read(size_t row, std::span<float> values) const {
  if (view_.has_value()) return quant::DecodeRows(*view_, *codebook_, row, 1, values);
  std::copy_n(&floats_[row * cols_], cols_, values.begin());
  return absl::OkStatus();
}

}  // namespace needle::engine
