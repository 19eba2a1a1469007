// converter/verify/verify_tensors.h: every tensor of an archive against its full-precision source
// or against golden tensors. Specification: "Encoding one group" (with the permitted ties),
// "Expected distortion", "Tree -> archive".
//
// Against a source, a group is first encoded anew by plain rounding (with the file's codebook) and
// compared bit for bit. What then differs is one of three things:
//   - a permitted tie, counted;
//   - damage, when the tensor was made by plain rounding: one such group is a failure;
//   - another choice of indices and norms (norm search, calibration): then only the limits on
//     errors and norms below can tell a good tensor from a bad one. A swap of two norms that are
//     alike, or one flipped index bit, is a choice that such an encoder might have made and goes
//     unseen; what guards a calibrated archive against those is its manifest. Calibration that
//     corrects errors of its inputs (recipe "best") leaves the weights far behind: such a tensor
//     need only follow them, and what the model says (verify_forward.h) is the proof.
#ifndef NEEDLE_CONVERTER_VERIFY_VERIFY_TENSORS_H_
#define NEEDLE_CONVERTER_VERIFY_VERIFY_TENSORS_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "converter/tensor_encoder.h"
#include "converter/tensor_plan.h"
#include "converter/tensor_source.h"
#include "converter/verify/named_tensors.h"
#include "converter/verify/tensor_report.h"
#include "format/archive.h"

namespace needle::verify {

// How the archive's matrices were rounded.
enum class Rounding : uint8_t {
  // Each tensor as its groups say: plain when at least a quarter of them is plain rounding's, or
  // when the indices are and the norms are not (no encoder does that, except at one bit, where
  // indices do not depend on norms); otherwise any.
  kAuto,
  kPlain,  // round to nearest, all of them
  kAny,    // never hold a tensor to plain rounding
};

struct TensorLimits {
  Rounding rounding = Rounding::kAuto;
  // Plain rounding: permitted ties in the whole archive, per weight and per norm; one of each is
  // always allowed. By the specification.
  double max_index_ties = 1e-5;
  double max_norm_ties = 1e-3;
  // Tensor: squared error over squared weights, as a multiple of the width's theory, at most 0.95.
  // Given, it holds for every matrix. None: 4 for those of other than plain rounding, and a tensor
  // past that is "corrected" when min_cosine holds.
  std::optional<double> max_tensor_ratio;
  // Cosine of the angle between stored and source values of a corrected tensor. Unrelated ones give
  // 0 with a deviation of 1/sqrt(values); binary matrices of 12 examples' calibration gave 0.31.
  double min_cosine = 0.2;
  // Group: squared error, over the group's squared weights or its row's mean group's, whichever is
  // more (feedback may spend error on groups that hardly matter). Given, it holds for the groups of
  // every matrix. None: for those of other than plain rounding 2, or 20 times the tensor's error
  // when that is more (calibrated tensors of the trained model came to 11 times), at most 64 (they
  // came to 37): damage in many groups raises the tensor's error, too.
  std::optional<double> max_group_nmse;
  // Other than plain rounding: correlation of stored norms with those that fit the stored indices
  // best, over a tensor's groups. None: norms in another order give 0 with a deviation of
  // 1/sqrt(groups), five of these are wanted, or 0.3 when that is less. Read from 256 groups on and
  // up to an error of 0.55: beyond that, norms fit other values than the source's.
  std::optional<double> min_norm_correlation;
  // Golden CQ tensors: of the largest magnitude in the group. None: what rounding allows to any
  // decoder that computes in f32, in any order; derived from the group's norm in verify_golden.cc.
  std::optional<double> golden_tolerance;
};

struct TensorsOptions {
  TensorLimits limits;
  // What chose indices and norms, known after a build: every matrix must hold exactly its choice,
  // and the limits on rounding and errors are not read. Null: nothing is known. Outlives the call.
  const converter::TensorEncoder* encoder = nullptr;
  bool check_widths = false;  // a plan's widths are the archive's (known after a build)
  // Look for the worst group of a tensor also where every group is plain rounding's, which takes
  // half as long again.
  bool locate_worst = true;
  size_t threads = 0;  // 0: one per processor. Never shows in the report
  // Called from one thread at a time; false stops with Cancelled.
  std::function<bool(uint64_t values_done, uint64_t num_values)> progress;
};

// Geometry, tensor list and tokenizer of `archive` against those of `plan`, then every tensor: CQ
// as above, FP16 and FP32 exact. What differs is in the report; an error says that the source
// itself cannot be read or holds what no archive may (as of quant::EncodeRows).
absl::StatusOr<TensorsReport> VerifyAgainstPlan(const format::Archive& archive,
                                                const converter::TensorPlan& plan,
                                                const TensorsOptions& options);

// The tensors alone, against any source with the archive's own schema. `against` names it.
absl::StatusOr<TensorsReport> VerifyAgainstSource(const format::Archive& archive,
                                                  const converter::TensorSource& source,
                                                  const std::string& against,
                                                  const TensorsOptions& options);

// Every tensor except the tokenizer, decoded, against the golden one of its name: F32 of the same
// shape. CQ within the tolerance, others exact. Fails: a name that only one side has, another type
// or shape, a value that is not finite, nothing to compare.
absl::StatusOr<TensorsReport> VerifyGolden(const format::Archive& archive,
                                           const NamedTensors& golden,
                                           const TensorsOptions& options);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_VERIFY_TENSORS_H_
