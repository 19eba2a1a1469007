#include "quant/dense.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "format/width.h"
#include "quant/dense_kernel.h"

namespace needle::quant {
namespace {

// Rows or columns of a block: its square stays in the first-level cache.
constexpr size_t kBlock = 64;
constexpr size_t kDenseRowsPerTask = 16;

// 1 / sqrt(128), correctly rounded.
constexpr double kRotationScale = 0.08838834764831845;

void RotateGroup(double* values) {
  for (size_t stride = 1; stride < format::kGroup; stride *= 2) {
    for (size_t base = 0; base < format::kGroup; base += 2 * stride) {
      for (size_t i = base; i < base + stride; ++i) {
        const double a = values[i];
        const double b = values[i + stride];
        values[i] = a + b;
        values[i + stride] = a - b;
      }
    }
  }
  for (size_t i = 0; i < format::kGroup; ++i) values[i] *= kRotationScale;
}

// The diagonal block at `first` of the lower triangle, factored in place. False: not positive.
bool FactorDiagonal(DenseMatrix& l, size_t first, size_t count) {
  for (size_t c = first; c < first + count; ++c) {
    double pivot = l.at(c, c);
    for (size_t k = first; k < c; ++k) pivot -= l.at(c, k) * l.at(c, k);
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const double root = std::sqrt(pivot);
    l.at(c, c) = root;
    for (size_t r = c + 1; r < first + count; ++r) {
      double value = l.at(r, c);
      for (size_t k = first; k < c; ++k) value -= l.at(r, k) * l.at(c, k);
      l.at(r, c) = value / root;
    }
  }
  return true;
}

// Rows [begin, end) below the diagonal block at `first`: x L^T = row, forward.
void SolvePanelRows(DenseMatrix& l, size_t first, size_t count, const DenseMatrix& block_t,
                    size_t begin, size_t end) {
  for (size_t r = begin; r < end; ++r) {
    double* x = l.row(r) + first;
    for (size_t c = 0; c < count; ++c) {
      x[c] /= block_t.at(c, c);
      Dense().add_scaled(block_t.row(c) + c + 1, -x[c], x + c + 1, count - c - 1);
    }
  }
}

// Minus the transpose of rows [first, first + count), columns [0, cols).
DenseMatrix NegatedTranspose(const DenseMatrix& l, size_t first, size_t count, size_t cols) {
  DenseMatrix result(cols, count);
  for (size_t r = 0; r < count; ++r) {
    for (size_t c = 0; c < cols; ++c) result.at(c, r) = -l.at(first + r, c);
  }
  return result;
}

// Left-looking, block column by block column. The strict upper triangle is not touched.
bool FactorLower(DenseMatrix& l, base::ThreadPool& pool) {
  const size_t n = l.rows();
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    const DenseMatrix done = NegatedTranspose(l, first, count, first);
    const auto update = [&](size_t begin, size_t end, size_t) {
      Dense().add_product(l.row(first + begin), n, done.row(0), count, end - begin, first, count,
                          l.row(first + begin) + first, n);
    };
    pool.ParallelFor(n - first, kDenseRowsPerTask, std::ref(update));
    if (!FactorDiagonal(l, first, count)) return false;
    DenseMatrix block_t(count, count);
    for (size_t r = 0; r < count; ++r) {
      for (size_t c = 0; c <= r; ++c) block_t.at(c, r) = l.at(first + r, first + c);
    }
    const size_t below = first + count;
    const auto solve = [&](size_t begin, size_t end, size_t) {
      SolvePanelRows(l, first, count, block_t, below + begin, below + end);
    };
    pool.ParallelFor(n - below, kDenseRowsPerTask, std::ref(solve));
  }
  return true;
}

// Columns [left, right) of the inverse of the lower triangular `l`, into `x`, which is zero there:
// row block by row block.
void InvertColumns(const DenseMatrix& l, size_t left, size_t right, DenseMatrix& x) {
  const size_t n = l.rows();
  const size_t width = right - left;
  for (size_t first = left; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    // x[rows] = identity - l[rows, left .. first) * x[left .. first)
    DenseMatrix factors(count, first - left);
    for (size_t r = 0; r < count; ++r) {
      for (size_t c = left; c < first; ++c) factors.at(r, c - left) = -l.at(first + r, c);
    }
    Dense().add_product(factors.row(0), first - left, x.row(left) + left, n, count, first - left,
                        width, x.row(first) + left, n);
    for (size_t r = first; r < first + count; ++r) {
      if (r < right) x.at(r, r) += 1.0;
      for (size_t k = first; k < r; ++k) {
        Dense().add_scaled(x.row(k) + left, -l.at(r, k), x.row(r) + left, width);
      }
      const double diagonal = l.at(r, r);
      for (size_t c = left; c < right; ++c) x.at(r, c) /= diagonal;
    }
  }
}

// values[i, j] = matrix[n-1-i, n-1-j].
DenseMatrix Flipped(const DenseMatrix& matrix) {
  const size_t n = matrix.rows();
  DenseMatrix result(n, n);
  for (size_t r = 0; r < n; ++r) {
    std::reverse_copy(matrix.row(n - 1 - r), matrix.row(n - 1 - r) + n, result.row(r));
  }
  return result;
}

}  // namespace

double Trace(const DenseMatrix& square) {
  double sum = 0;
  for (size_t i = 0; i < square.rows(); ++i) sum += square.at(i, i);
  return sum;
}

DenseMatrix Transposed(const DenseMatrix& matrix) {
  DenseMatrix result(matrix.cols(), matrix.rows());
  for (size_t r0 = 0; r0 < matrix.rows(); r0 += kBlock) {
    for (size_t c = 0; c < matrix.cols(); ++c) {
      for (size_t r = r0; r < std::min(r0 + kBlock, matrix.rows()); ++r) {
        result.at(c, r) = matrix.at(r, c);
      }
    }
  }
  return result;
}

DenseMatrix Product(const DenseMatrix& a, const DenseMatrix& b, base::ThreadPool& pool) {
  DenseMatrix c(a.rows(), b.cols());
  const auto body = [&](size_t begin, size_t end, size_t) {
    for (size_t k = 0; k < a.cols(); k += kBlock) {  // the block of b stays in the cache
      Dense().add_product(a.row(begin) + k, a.cols(), b.row(k), b.cols(), end - begin,
                          std::min(kBlock, a.cols() - k), b.cols(), c.row(begin), c.cols());
    }
  };
  pool.ParallelFor(a.rows(), kDenseRowsPerTask, std::ref(body));
  return c;
}

void RotateRows(DenseMatrix& matrix, base::ThreadPool& pool) {
  const auto body = [&](size_t begin, size_t end, size_t) {
    for (size_t r = begin; r < end; ++r) {
      for (size_t c = 0; c < matrix.cols(); c += format::kGroup) RotateGroup(matrix.row(r) + c);
    }
  };
  pool.ParallelFor(matrix.rows(), kDenseRowsPerTask, std::ref(body));
}

void RotateBothSides(DenseMatrix& square, base::ThreadPool& pool) {
  RotateRows(square, pool);
  square = Transposed(square);
  RotateRows(square, pool);
  square = Transposed(square);
}

// With the order of rows and columns reversed, h = L * L^T becomes h = R * R^T with R upper
// triangular, and U is the inverse of R.
bool InverseFactor(const DenseMatrix& h, base::ThreadPool& pool, DenseMatrix& u) {
  DenseMatrix l = Flipped(h);
  // The flipped lower triangle is the upper one of h; both are the same.
  if (!FactorLower(l, pool)) return false;
  DenseMatrix inverse(l.rows(), l.rows());
  const size_t blocks = (l.rows() + kBlock - 1) / kBlock;
  const auto body = [&](size_t begin, size_t end, size_t) {
    for (size_t b = begin; b < end; ++b) {
      InvertColumns(l, b * kBlock, std::min((b + 1) * kBlock, l.rows()), inverse);
    }
  };
  pool.ParallelFor(blocks, 1, std::ref(body));
  u = Flipped(inverse);
  return true;
}

}  // namespace needle::quant
