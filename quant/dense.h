// quant/dense.h: dense f64 matrices for calibration: products, factorisation, rotation. The same
// bits on every machine and for every number of threads.
#ifndef NEEDLE_QUANT_DENSE_H_
#define NEEDLE_QUANT_DENSE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace needle::quant {

// Row-major [rows, cols]. A value type.
class DenseMatrix {
 public:
  DenseMatrix() = default;
  DenseMatrix(size_t rows, size_t cols) : rows_(rows), cols_(cols), values_(rows * cols, 0.0) {}

  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  double* row(size_t r) { return values_.data() + r * cols_; }
  const double* row(size_t r) const { return values_.data() + r * cols_; }
  double& at(size_t r, size_t c) { return values_[r * cols_ + c]; }
  double at(size_t r, size_t c) const { return values_[r * cols_ + c]; }
  std::span<double> values() { return values_; }
  std::span<const double> values() const { return values_; }

 private:
  size_t rows_ = 0;
  size_t cols_ = 0;
  std::vector<double> values_;
};

double Trace(const DenseMatrix& square);
DenseMatrix Transposed(const DenseMatrix& matrix);
// a * b; terms in ascending order of the inner index, each sum starting at 0.
DenseMatrix Product(const DenseMatrix& a, const DenseMatrix& b, base::ThreadPool& pool);

// In place, each run of 128 values of every row: the Walsh-Hadamard rotation of rotate.h in f64.
// cols() must be a multiple of 128.
void RotateRows(DenseMatrix& matrix, base::ThreadPool& pool);
// R * matrix * R for the block-diagonal rotation R of a square matrix.
void RotateBothSides(DenseMatrix& square, base::ThreadPool& pool);

// U, upper triangular, with the inverse of `h` = U^T * U, from a Cholesky factorisation of the
// symmetric `h` (of which the lower triangle is read). False: a pivot is not a positive number; `u`
// is then unspecified. Golub and Van Loan, "Matrix Computations", 4.2.
bool InverseFactor(const DenseMatrix& h, base::ThreadPool& pool, DenseMatrix& u);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_DENSE_H_
