#include "converter/calibrate/matrix_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "format/width.h"

namespace needle::calibrate {
namespace {

using quant::DenseMatrix;

constexpr size_t kPolishRounds = 6;
// Damping by more than the moments themselves ten thousand times over is no fit any more.
constexpr uint32_t kMostRaises = 8;

size_t PaddedCols(size_t cols) {
  return (cols + format::kGroup - 1) / format::kGroup * format::kGroup;
}

DenseMatrix PaddedRotated(const DenseMatrix& square, base::ThreadPool& pool) {
  DenseMatrix padded(PaddedCols(square.rows()), PaddedCols(square.cols()));
  for (size_t r = 0; r < square.rows(); ++r) {
    std::copy_n(square.row(r), square.cols(), padded.row(r));
  }
  RotateBothSides(padded, pool);
  return padded;
}

void AddToDiagonal(DenseMatrix& square, double value) {
  for (size_t i = 0; i < square.rows(); ++i) square.at(i, i) += value;
}

// Rotating both sides rounds the two halves apart.
void Symmetrize(DenseMatrix& square) {
  for (size_t r = 0; r < square.rows(); ++r) {
    for (size_t c = 0; c < r; ++c) square.at(c, r) = square.at(r, c);
  }
}

bool AllFinite(const DenseMatrix& matrix) {
  return std::all_of(matrix.values().begin(), matrix.values().end(),
                     [](double v) { return std::isfinite(v); });
}

double Sum(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

// Sum over rows of w H w^T.
double Energy(const DenseMatrix& rows, const DenseMatrix& moments, base::ThreadPool& pool) {
  const DenseMatrix products = Product(rows, moments, pool);
  double sum = 0;
  for (size_t i = 0; i < rows.values().size(); ++i) sum += rows.values()[i] * products.values()[i];
  return sum;
}

}  // namespace

std::optional<InputMetric> MakeInputMetric(const DenseMatrix& moments, const DenseMatrix* cross,
                                           double damping, base::ThreadPool& pool) {
  const double mean = Trace(moments) / static_cast<double>(moments.rows());
  if (!(mean > 0) || !AllFinite(moments) || (cross != nullptr && !AllFinite(*cross))) {
    return std::nullopt;
  }
  InputMetric input;
  for (size_t i = 0; i < moments.rows(); ++i) input.dead_inputs += moments.at(i, i) > 0 ? 0U : 1U;
  const DenseMatrix rotated = PaddedRotated(moments, pool);
  input.damping = damping;
  for (;;) {
    input.metric.moments = rotated;
    Symmetrize(input.metric.moments);
    AddToDiagonal(input.metric.moments, input.damping * mean);
    if (InverseFactor(input.metric.moments, pool, input.metric.factor)) break;
    if (input.damping_raised == kMostRaises) return std::nullopt;
    input.damping *= 10;
    ++input.damping_raised;
  }
  if (cross != nullptr) {
    input.cross = PaddedRotated(*cross, pool);
    AddToDiagonal(*input.cross, input.damping * mean);
  }
  return input;
}

DenseMatrix RotatedRows(std::span<const float> weights, size_t cols, base::ThreadPool& pool) {
  DenseMatrix rows(weights.size() / cols, PaddedCols(cols));
  for (size_t r = 0; r < rows.rows(); ++r) {
    std::copy_n(weights.begin() + static_cast<ptrdiff_t>(r * cols), cols, rows.row(r));
  }
  RotateRows(rows, pool);
  return rows;
}

RowsFit FitRows(const DenseMatrix& weights, const InputMetric& input,
                const quant::Codebook& codebook, bool polish, const quant::RowChoices& plain,
                base::ThreadPool& pool) {
  DenseMatrix targets = weights;
  if (input.cross.has_value()) {  // (W C) U^T U, U^T U being the inverse of the moments
    targets = Product(targets, *input.cross, pool);
    targets = Product(targets, Transposed(input.metric.factor), pool);
    targets = Product(targets, input.metric.factor, pool);
  }
  RowsFit fit;
  fit.choices = FeedbackRows(targets, input.metric, codebook, pool);
  if (polish) PolishRows(targets, input.metric, codebook, kPolishRounds, pool, fit.choices);
  std::vector<double> chosen =
      RowObjectives(targets, input.metric.moments, codebook, fit.choices, pool);
  const std::vector<double> rounded =
      RowObjectives(targets, input.metric.moments, codebook, plain, pool);
  for (size_t r = 0; r < chosen.size(); ++r) {
    if (chosen[r] < rounded[r]) continue;
    fit.choices.CopyRow(plain, r);
    chosen[r] = rounded[r];
    ++fit.plain_rows;
  }
  fit.target_objective = Energy(targets, input.metric.moments, pool);
  fit.plain_objective = Sum(rounded);
  fit.objective = Sum(chosen);
  return fit;
}

}  // namespace needle::calibrate
