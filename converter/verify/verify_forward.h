// converter/verify/verify_forward.h: what an archive says next, against what its float checkpoint
// says. Specification: "The model the reference engine runs".
#ifndef NEEDLE_CONVERTER_VERIFY_VERIFY_FORWARD_H_
#define NEEDLE_CONVERTER_VERIFY_VERIFY_FORWARD_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/verify/divergence.h"
#include "engine/model.h"
#include "engine/numerics.h"
#include "engine/tokenizer.h"

namespace needle::verify {

// A broken limit is a failure; so is a position whose logits are not finite, whatever the limits.
struct ForwardLimits {
  double max_mean_kl = 0.5;  // nats; a trained 2-bit model stays near 0.01, a broken one is above 1
  double max_kl = 1e9;
  double min_top1 = 0;  // share of positions, 0 to 1
};

struct ForwardOptions {
  ForwardLimits limits;
  // Sequences run at the same time; load the models with one thread each then. 0: one per
  // processor.
  size_t threads = 1;
  // Called from one thread at a time after each sequence; false stops with Cancelled.
  std::function<bool(size_t done, size_t total)> progress;
};

struct ForwardReport {
  std::string reference = {};  // names and numerics of both sides
  std::string archive = {};
  engine::Numerics reference_numerics = engine::Numerics::kFloat;
  engine::Numerics archive_numerics = engine::Numerics::kKernel;
  size_t sequences = 0;
  Divergence divergence = {};       // over all positions
  double reference_perplexity = 1;  // of the next token, over `predicted` positions
  double archive_perplexity = 1;
  uint64_t predicted = 0;
  std::vector<std::string> failures = {};

  bool passed() const { return failures.empty(); }
};

// Runs each sequence through both models, teacher-forced. Geometries that differ (depth, widths,
// vocabulary) and nothing to compare are failures, found before anything runs. Errors as of
// Session::Prefill, naming the sequence's number.
absl::StatusOr<ForwardReport> VerifyForward(const engine::Model& reference,
                                            const engine::Model& archive,
                                            std::span<const std::vector<uint32_t>> sequences,
                                            const ForwardOptions& options);

// A short text to verify with when the user gives none: two requests with tools and their answers
// in the prompt format, cut at max_seq_len. Without a tokenizer: ids from a fixed generator.
std::vector<std::vector<uint32_t>> BuiltInSequences(const engine::Tokenizer* tokenizer,
                                                    const format::Geometry& geometry);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_VERIFY_FORWARD_H_
