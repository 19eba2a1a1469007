// quant/feedback.h: indices and norms that keep a matrix's outputs instead of its weights.
// Specification: "Better choices inside the same format", calibrated; docs/quantisation.md.
//
// All in the rotated domain, row by row: for a row w (1 x n) the choice q minimises
//   (q - w) H (q - w)^T
// with H the damped second moments of the matrix's inputs.
#ifndef NEEDLE_QUANT_FEEDBACK_H_
#define NEEDLE_QUANT_FEEDBACK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/codebook.h"
#include "quant/dense.h"

namespace needle::quant {

// Codes and norms of some rows, not packed: what a row becomes is codebook[code] * norm.
struct RowChoices {
  size_t rows = 0;
  size_t cols = 0;              // a multiple of 128
  std::vector<uint8_t> codes;   // [rows, cols], codebook positions
  std::vector<uint16_t> norms;  // [rows, cols / 128], f16 bits

  RowChoices() = default;
  RowChoices(size_t rows_in, size_t cols_in);
  size_t groups() const;  // of a row
  // Row `from` of `other`, of the same shape, becomes row `from` here.
  void CopyRow(const RowChoices& other, size_t from);
};

// Symmetric, positive definite [n, n] moments and the factor of their inverse (InverseFactor).
struct Metric {
  DenseMatrix moments;
  DenseMatrix factor;
};

// Error feedback over whole rows (LDLQ, the same as GPTQ): columns in ascending order, each rounded
// to the nearest entry, its error spread over the columns to come by the rows of the factor. The
// norm of a group is chosen when it opens: of 8 factors times the norm of what is left there, the
// one with the least feedback loss in that group. Frantar et al. 2022; Chee et al. 2023.
// targets: [rows, n].
RowChoices FeedbackRows(const DenseMatrix& targets, const Metric& metric, const Codebook& codebook,
                        base::ThreadPool& pool);

// At most `rounds` times: the joint least-squares refit of a row's norms, kept where it lowers the
// objective after rounding to f16; then one sweep over its indices, each set to its exact
// minimiser. Stops at a row that no longer changes; ends with a refit. No row's objective rises.
void PolishRows(const DenseMatrix& targets, const Metric& metric, const Codebook& codebook,
                size_t rounds, base::ThreadPool& pool, RowChoices& choices);

// The objective of each row.
std::vector<double> RowObjectives(const DenseMatrix& targets, const DenseMatrix& moments,
                                  const Codebook& codebook, const RowChoices& choices,
                                  base::ThreadPool& pool);

// What the rows become, [rows, cols], in the rotated domain.
DenseMatrix RowValues(const RowChoices& choices, const Codebook& codebook);

}  // namespace needle::quant

#endif  // NEEDLE_QUANT_FEEDBACK_H_
