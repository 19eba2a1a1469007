#include "quant/feedback.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "format/width.h"
#include "quant/code_table.h"
#include "quant/dense_kernel.h"

namespace needle::quant {
namespace {

constexpr size_t kGroup = format::kGroup;
constexpr size_t kFittedRowsPerTask = 8;
constexpr std::array<double, kCandidates> kNormFactors = {0.70, 0.78, 0.85, 0.90,
                                                          0.95, 1.00, 1.06, 1.12};

// One group of one row with its candidate norms side by side.
class GroupTrial {
 public:
  // `rest`: the group's targets after the feedback of earlier groups. Rounds the group with every
  // candidate; `factor` are the group's rows and columns of the factor, `stride` apart.
  void Run(const CodeTable& table, const double* rest, const double* factor, size_t stride);
  // The candidate with the least loss, the first on a tie.
  size_t Best() const {
    return static_cast<size_t>(std::min_element(loss_.begin(), loss_.end()) - loss_.begin());
  }
  // Of a candidate: its norm, its codes, and minus its feedback errors.
  void Take(size_t candidate, uint8_t* codes, uint16_t& norm, double* negated_errors) const;

 private:
  void SetNorms(const double* rest);
  void RoundColumn(const CodeTable& table, size_t j, double diagonal, double* errors);

  std::array<uint16_t, kCandidates> bits_;
  std::array<double, kCandidates> norms_;
  std::array<double, kCandidates> inverses_;
  std::array<double, kCandidates> loss_;
  std::array<double, kGroup * kCandidates> rest_;
  std::array<double, kGroup * kCandidates> errors_;
  std::array<uint8_t, kGroup * kCandidates> codes_;
};

void GroupTrial::SetNorms(const double* rest) {
  double square = 0;
  for (size_t j = 0; j < kGroup; ++j) square += rest[j] * rest[j];
  const double norm = std::sqrt(square);
  for (size_t c = 0; c < kCandidates; ++c) {
    bits_[c] = NormBits(norm * kNormFactors[c]);
    norms_[c] = NormValue(bits_[c]);
    inverses_[c] = 1 / std::max(norms_[c], kSmallestNorm);
  }
}

void GroupTrial::RoundColumn(const CodeTable& table, size_t j, double diagonal, double* errors) {
  std::array<uint32_t, kCandidates> codes{};
  std::array<double, kCandidates> units;
  const double* rest = &rest_[j * kCandidates];
  for (size_t c = 0; c < kCandidates; ++c) units[c] = rest[c] * inverses_[c];
  for (const double middle : table.middles()) {
    for (size_t c = 0; c < kCandidates; ++c) codes[c] += middle < units[c] ? 1U : 0U;
  }
  for (size_t c = 0; c < kCandidates; ++c) {
    codes_[j * kCandidates + c] = static_cast<uint8_t>(codes[c]);
    errors[c] = (rest[c] - table[codes[c]] * norms_[c]) / diagonal;
    loss_[c] += errors[c] * errors[c];
  }
}

void GroupTrial::Run(const CodeTable& table, const double* rest, const double* factor,
                     size_t stride) {
  SetNorms(rest);
  loss_.fill(0);
  for (size_t j = 0; j < kGroup; ++j) {
    std::fill_n(&rest_[j * kCandidates], kCandidates, rest[j]);
  }
  for (size_t j = 0; j < kGroup; ++j) {
    double* errors = &errors_[j * kCandidates];
    const double* row = factor + j * stride;
    RoundColumn(table, j, row[j], errors);
    Dense().subtract_outer(row + j + 1, kGroup - j - 1, errors,
                           rest_.data() + (j + 1) * kCandidates);
  }
}

void GroupTrial::Take(size_t candidate, uint8_t* codes, uint16_t& norm,
                      double* negated_errors) const {
  norm = bits_[candidate];
  for (size_t j = 0; j < kGroup; ++j) {
    codes[j] = codes_[j * kCandidates + candidate];
    negated_errors[j] = -errors_[j * kCandidates + candidate];
  }
}

// Rows [begin, end) by error feedback.
void FeedbackBlock(const DenseMatrix& targets, const DenseMatrix& factor, const CodeTable& table,
                   size_t begin, size_t end, RowChoices& choices) {
  const size_t n = targets.cols();
  const size_t rows = end - begin;
  std::vector<double> rest(targets.row(begin), targets.row(begin) + rows * n);
  std::vector<double> errors(rows * kGroup);
  GroupTrial trial;
  for (size_t g = 0; g < n / kGroup; ++g) {
    const size_t column = g * kGroup;
    for (size_t r = 0; r < rows; ++r) {
      trial.Run(table, &rest[r * n + column], factor.row(column) + column, n);
      trial.Take(trial.Best(), &choices.codes[(begin + r) * n + column],
                 choices.norms[(begin + r) * choices.groups() + g], &errors[r * kGroup]);
    }
    const size_t next = column + kGroup;
    if (next == n) break;
    Dense().add_product(errors.data(), kGroup, factor.row(column) + next, n, rows, kGroup, n - next,
                        rest.data() + next, n);
  }
}

// x with a x = b for a symmetric positive definite a of n rows (both are overwritten); false when a
// is not.
bool SolveSmall(std::vector<double>& a, size_t n, std::vector<double>& b) {
  for (size_t c = 0; c < n; ++c) {
    for (size_t k = 0; k < c; ++k) {
      for (size_t r = c; r < n; ++r) a[r * n + c] -= a[r * n + k] * a[c * n + k];
    }
    if (!(a[c * n + c] > 0)) return false;
    const double root = std::sqrt(a[c * n + c]);
    for (size_t r = c; r < n; ++r) a[r * n + c] /= root;
  }
  for (size_t r = 0; r < n; ++r) {
    for (size_t k = 0; k < r; ++k) b[r] -= a[r * n + k] * b[k];
    b[r] /= a[r * n + r];
  }
  for (size_t r = n; r-- > 0;) {
    for (size_t k = r + 1; k < n; ++k) b[r] -= a[k * n + r] * b[k];
    b[r] /= a[r * n + r];
  }
  return true;
}

// One row being polished. Vectors are kept up to date with every change.
class RowPolish {
 public:
  // spread: [groups, n], row g = u_g H with u_g the entries of group g's codes at their place;
  // target_h: w H. Both, codes and norms are the caller's.
  RowPolish(const Metric& metric, const CodeTable& table, double* spread, const double* target_h,
            uint8_t* codes, uint16_t* norms)
      : moments_(metric.moments),
        table_(table),
        n_(metric.moments.cols()),
        groups_(n_ / kGroup),
        spread_(spread),
        target_h_(target_h),
        codes_(codes),
        norms_(norms),
        slope_(n_) {}

  void Refit();
  // The number of indices that changed.
  size_t Sweep();

 private:
  double Quadratic(const std::vector<double>& a, const std::vector<double>& b,
                   const std::vector<double>& x) const;
  bool MoveIndex(size_t j, double norm);

  const DenseMatrix& moments_;
  const CodeTable& table_;
  size_t n_;
  size_t groups_;
  double* spread_;
  const double* target_h_;
  uint8_t* codes_;
  uint16_t* norms_;
  std::vector<double> slope_;  // (q - w) H during a sweep
};

double RowPolish::Quadratic(const std::vector<double>& a, const std::vector<double>& b,
                            const std::vector<double>& x) const {
  double value = 0;
  for (size_t g = 0; g < groups_; ++g) {
    double row = -2 * b[g];
    for (size_t h = 0; h < groups_; ++h) row += a[g * groups_ + h] * x[h];
    value += row * x[g];
  }
  return value;
}

// Minimises x A x^T - 2 b x^T, the objective as a function of the norms.
void RowPolish::Refit() {
  std::vector<double> a(groups_ * groups_);
  std::vector<double> b(groups_);
  for (size_t h = 0; h < groups_; ++h) {
    for (size_t j = h * kGroup; j < (h + 1) * kGroup; ++j) {
      const double entry = table_[codes_[j]];
      b[h] += target_h_[j] * entry;
      for (size_t g = 0; g < groups_; ++g) a[g * groups_ + h] += spread_[g * n_ + j] * entry;
    }
  }
  double trace = 0;
  for (size_t g = 0; g < groups_; ++g) trace += a[g * groups_ + g];
  std::vector<double> factor = a;
  for (size_t g = 0; g < groups_; ++g) factor[g * groups_ + g] += 1e-12 * trace;
  std::vector<double> best = b;
  if (!SolveSmall(factor, groups_, best)) return;
  std::vector<double> now(groups_);
  std::vector<uint16_t> bits(groups_);
  for (size_t g = 0; g < groups_; ++g) {
    now[g] = NormValue(norms_[g]);
    bits[g] = NormBits(best[g] > 0 ? best[g] : 0);
    best[g] = NormValue(bits[g]);
  }
  if (Quadratic(a, b, best) < Quadratic(a, b, now)) std::copy(bits.begin(), bits.end(), norms_);
}

// Sets one index to its minimiser; false when it is there.
bool RowPolish::MoveIndex(size_t j, double norm) {
  const double old = table_[codes_[j]];
  const double best = old * norm - slope_[j] / moments_.at(j, j);
  const uint8_t code = table_.Nearest(best / norm);
  if (code == codes_[j]) return false;
  const double change = table_[code] - old;
  codes_[j] = code;
  Dense().add_scaled(moments_.row(j), change, spread_ + j / kGroup * n_, n_);
  Dense().add_scaled(moments_.row(j), change * norm, slope_.data(), n_);
  return true;
}

size_t RowPolish::Sweep() {
  for (size_t j = 0; j < n_; ++j) slope_[j] = -target_h_[j];
  for (size_t g = 0; g < groups_; ++g) {
    Dense().add_scaled(spread_ + g * n_, NormValue(norms_[g]), slope_.data(), n_);
  }
  size_t changes = 0;
  for (size_t j = 0; j < n_; ++j) {
    const double norm = NormValue(norms_[j / kGroup]);
    if (norm > 0 && MoveIndex(j, norm)) ++changes;
  }
  return changes;
}

// Rows [begin, end) of codes as entries, norms left out.
std::vector<double> Entries(const RowChoices& choices, const CodeTable& table, size_t begin,
                            size_t end) {
  std::vector<double> entries((end - begin) * choices.cols);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i] = table[choices.codes[begin * choices.cols + i]];
  }
  return entries;
}

void PolishBlock(const DenseMatrix& targets, const Metric& metric, const CodeTable& table,
                 size_t rounds, size_t begin, size_t end, RowChoices& choices) {
  const size_t n = targets.cols();
  const size_t rows = end - begin;
  const size_t groups = choices.groups();
  DenseMatrix target_h(rows, n);
  DenseMatrix spread(rows * groups, n);
  const std::vector<double> entries = Entries(choices, table, begin, end);
  for (size_t g = 0; g < groups; ++g) {  // a part of the moments serves both while it is at hand
    const double* moments = metric.moments.row(g * kGroup);
    Dense().add_product(targets.row(begin) + g * kGroup, n, moments, n, rows, kGroup, n,
                        target_h.row(0), n);
    Dense().add_product(entries.data() + g * kGroup, n, moments, n, rows, kGroup, n, spread.row(g),
                        groups * n);
  }
  for (size_t r = 0; r < rows; ++r) {
    RowPolish row(metric, table, spread.row(r * groups), target_h.row(r),
                  &choices.codes[(begin + r) * n], &choices.norms[(begin + r) * groups]);
    for (size_t round = 0; round < rounds; ++round) {
      row.Refit();
      if (row.Sweep() == 0) break;
    }
    row.Refit();
  }
}

}  // namespace

RowChoices::RowChoices(size_t rows_in, size_t cols_in)
    : rows(rows_in), cols(cols_in), codes(rows * cols), norms(rows * (cols / kGroup)) {}

size_t RowChoices::groups() const { return cols / kGroup; }

void RowChoices::CopyRow(const RowChoices& other, size_t from) {
  std::copy_n(&other.codes[from * cols], cols, &codes[from * cols]);
  std::copy_n(&other.norms[from * groups()], groups(), &norms[from * groups()]);
}

RowChoices FeedbackRows(const DenseMatrix& targets, const Metric& metric, const Codebook& codebook,
                        base::ThreadPool& pool) {
  RowChoices choices(targets.rows(), targets.cols());
  const CodeTable table(codebook);
  const auto body = [&](size_t begin, size_t end, size_t) {
    FeedbackBlock(targets, metric.factor, table, begin, end, choices);
  };
  pool.ParallelFor(targets.rows(), kFittedRowsPerTask, std::ref(body));
  return choices;
}

void PolishRows(const DenseMatrix& targets, const Metric& metric, const Codebook& codebook,
                size_t rounds, base::ThreadPool& pool, RowChoices& choices) {
  const CodeTable table(codebook);
  const auto body = [&](size_t begin, size_t end, size_t) {
    PolishBlock(targets, metric, table, rounds, begin, end, choices);
  };
  pool.ParallelFor(targets.rows(), kFittedRowsPerTask, std::ref(body));
}

DenseMatrix RowValues(const RowChoices& choices, const Codebook& codebook) {
  const CodeTable table(codebook);
  DenseMatrix values(choices.rows, choices.cols);
  for (size_t i = 0; i < choices.codes.size(); ++i) {
    values.values()[i] = table[choices.codes[i]] * NormValue(choices.norms[i / kGroup]);
  }
  return values;
}

std::vector<double> RowObjectives(const DenseMatrix& targets, const DenseMatrix& moments,
                                  const Codebook& codebook, const RowChoices& choices,
                                  base::ThreadPool& pool) {
  DenseMatrix errors = RowValues(choices, codebook);
  for (size_t i = 0; i < errors.values().size(); ++i) errors.values()[i] -= targets.values()[i];
  const DenseMatrix slopes = Product(errors, moments, pool);
  std::vector<double> objectives(targets.rows());
  for (size_t r = 0; r < targets.rows(); ++r) {
    for (size_t j = 0; j < targets.cols(); ++j) {
      objectives[r] += errors.at(r, j) * slopes.at(r, j);
    }
  }
  return objectives;
}

}  // namespace needle::quant
