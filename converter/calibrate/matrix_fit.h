// converter/calibrate/matrix_fit.h: one matrix's indices and norms from the moments of its inputs.
// Objectives and sources: docs/quantisation.md.
#ifndef NEEDLE_CONVERTER_CALIBRATE_MATRIX_FIT_H_
#define NEEDLE_CONVERTER_CALIBRATE_MATRIX_FIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/codebook.h"
#include "quant/dense.h"
#include "quant/feedback.h"

namespace needle::calibrate {

// What all matrices that read the same inputs share: padded to whole groups, rotated, damped.
struct InputMetric {
  quant::Metric metric;
  std::optional<quant::DenseMatrix> cross;  // damped like the moments
  double damping = 0;                       // share of the mean diagonal
  uint32_t damping_raised = 0;
  uint64_t dead_inputs = 0;
};

// From moments [n, n] and, for corrected targets, cross moments: damped by `damping` times the mean
// diagonal, ten times more after each failed factorisation. Nothing: there is nothing to fit to
// (all moments are zero or not finite, or no damping helps).
std::optional<InputMetric> MakeInputMetric(const quant::DenseMatrix& moments,
                                           const quant::DenseMatrix* cross, double damping,
                                           base::ThreadPool& pool);

// Row-major f32 rows [rows, cols] as rotated f64 rows, padded to whole groups.
quant::DenseMatrix RotatedRows(std::span<const float> weights, size_t cols, base::ThreadPool& pool);

struct RowsFit {
  quant::RowChoices choices;
  uint64_t plain_rows = 0;     // rows for which plain rounding had the lower objective
  double plain_objective = 0;  // sums over rows
  double objective = 0;
  double target_objective = 0;  // of all-zero rows: what the other two are shares of
};

// weights: RotatedRows. Targets are W C H^-1 with cross moments, W without. Rows keep `plain` where
// its objective is not higher.
RowsFit FitRows(const quant::DenseMatrix& weights, const InputMetric& input,
                const quant::Codebook& codebook, bool polish, const quant::RowChoices& plain,
                base::ThreadPool& pool);

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_MATRIX_FIT_H_
