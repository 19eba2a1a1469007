#include "converter/rebalance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "base/status_macros.h"

namespace needle::converter {
namespace {

using format::TensorRole;

bool ReadsInput(TensorRole role) {
  return role == TensorRole::kQProj || role == TensorRole::kKProj || role == TensorRole::kVProj ||
         role == TensorRole::kGateProj;
}

// Adds each column's sum of squares.
absl::Status AddSquares(const TensorSource& source, const format::TensorSpec& spec, size_t position,
                        std::vector<double>& squares) {
  constexpr uint64_t kRowsAtOnce = 64;
  const uint64_t rows = TensorRows(spec);
  std::vector<float> values;
  for (uint64_t first = 0; first < rows; first += kRowsAtOnce) {
    const uint64_t count = std::min(kRowsAtOnce, rows - first);
    values.resize(count * squares.size());
    RETURN_IF_ERROR(source.ReadRows(position, first, count, values));
    for (size_t i = 0; i < values.size(); i += squares.size()) {
      for (size_t col = 0; col < squares.size(); ++col) {
        const auto weight = static_cast<double>(values[i + col]);
        squares[col] += weight * weight;
      }
    }
  }
  return absl::OkStatus();
}

// `gain`: of one layer; `squares`: of its columns.
InputBalance Balance(std::span<const float> gain, std::span<const double> squares) {
  InputBalance result{{gain.begin(), gain.end()}, std::vector<double>(gain.size(), 1)};
  std::vector<double> wanted(gain.size());  // sizes, up to one factor; 0: stays
  double old_sum = 0;
  double new_sum = 0;
  for (size_t i = 0; i < gain.size(); ++i) {
    const double size = std::abs(1 + static_cast<double>(gain[i]));
    wanted[i] = std::sqrt(size * std::sqrt(squares[i]));
    if (!std::isfinite(wanted[i])) wanted[i] = 0;
    if (wanted[i] == 0) continue;
    old_sum += size;
    new_sum += wanted[i];
  }
  for (size_t i = 0; i < gain.size(); ++i) {
    if (wanted[i] == 0) continue;
    const double before = 1 + static_cast<double>(gain[i]);
    const double after = std::copysign(wanted[i] * (old_sum / new_sum), before);
    const float stored = base::F32FromF16(base::F16FromF32(static_cast<float>(after - 1)));
    const double factor = before / (1 + static_cast<double>(stored));
    if (!std::isfinite(stored) || !std::isfinite(factor)) continue;
    result.gain[i] = stored;
    result.factors[i] = factor;
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<InputBalance>> BalanceInputs(const TensorSource& source,
                                                        const format::Schema& schema) {
  std::vector<std::vector<float>> gains;
  std::vector<std::vector<double>> squares;
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    const format::TensorSpec& spec = schema.tensors()[i];
    if (spec.id.role == TensorRole::kNormIn) {  // before the layer's matrices
      ASSIGN_OR_RETURN(gains.emplace_back(), ReadTensor(source, schema, i));
      squares.emplace_back(gains.back().size());
    } else if (ReadsInput(spec.id.role)) {
      RETURN_IF_ERROR(AddSquares(source, spec, i, squares.at(spec.id.index)));
    }
  }
  std::vector<InputBalance> result;
  for (size_t i = 0; i < gains.size(); ++i) result.push_back(Balance(gains[i], squares[i]));
  return result;
}

std::pair<double, double> ScaleRange(std::span<const InputBalance> balances) {
  std::pair<double, double> range = {1, 1};
  for (const InputBalance& balance : balances) {
    for (const double factor : balance.factors) {
      range.first = std::min(range.first, 1 / factor);
      range.second = std::max(range.second, 1 / factor);
    }
  }
  return range;
}

void ApplyBalance(std::span<const InputBalance> balances, format::TensorId id,
                  std::span<float> values) {
  if (id.role == TensorRole::kNormIn) {
    std::ranges::copy(balances[id.index].gain, values.begin());
    return;
  }
  if (!ReadsInput(id.role)) return;
  const std::vector<double>& factors = balances[id.index].factors;
  for (size_t i = 0; i < values.size(); i += factors.size()) {
    for (size_t col = 0; col < factors.size(); ++col) {
      float& value = values[i + col];
      value = static_cast<float>(static_cast<double>(value) * factors[col]);
    }
  }
}

}  // namespace needle::converter
