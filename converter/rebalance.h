// converter/rebalance.h: the channels of attention inputs, made alike in size. The float function
// stays what it is: y = W (1 + g) x keeps its value when 1 + g is multiplied by s and the columns
// of W are divided by it.
//
// A matrix that is rounded in rotated groups has its error spread evenly over a group's columns, so
// a column that meets a large channel does as much harm as all others together. With x the sizes of
// the channels and w those of their columns, the outputs' error is about sum(x^2) sum(w^2) over a
// group; by Cauchy-Schwarz it is least where both are in proportion, x' = w' = sqrt(x w) up to one
// factor. Sources: SmoothQuant (Xiao et al. 2022) at one half; docs/quantisation.md,
// "Rebalancing".
#ifndef NEEDLE_CONVERTER_REBALANCE_H_
#define NEEDLE_CONVERTER_REBALANCE_H_

#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/tensor_source.h"
#include "format/schema.h"

namespace needle::converter {

// Of one layer, one value for each of the d channels.
struct InputBalance {
  std::vector<float> gain;      // norm_in's new values, each an f16
  std::vector<double> factors;  // of the columns of q_proj, k_proj, v_proj and gate_proj
};

// For each layer of `schema`. The size of a channel is |1 + gain|, of its columns the root of their
// squares' sum over the four matrices; the mean size of the channels stays. A channel stays as it
// is when either size is zero or not finite, or when f16 cannot hold what it would become. Factors
// make up for the rounding of gains to f16. Reads the four matrices of a layer, one at a time.
// Errors as of ReadRows.
absl::StatusOr<std::vector<InputBalance>> BalanceInputs(const TensorSource& source,
                                                        const format::Schema& schema);

// The least and the largest number that a channel's size was multiplied by; 1 and 1 for none.
std::pair<double, double> ScaleRange(std::span<const InputBalance> balances);

// `values`: rows of the tensor `id`. Changes those of the five tensors of a layer above, no others.
void ApplyBalance(std::span<const InputBalance> balances, format::TensorId id,
                  std::span<float> values);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_REBALANCE_H_
