// cli/verification.h: the proof of an archive as commands ask for it and print it.
#ifndef NEEDLE_CLI_VERIFICATION_H_
#define NEEDLE_CLI_VERIFICATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "cli/command_line.h"
#include "converter/tensor_plan.h"
#include "converter/verify/tensor_report.h"
#include "converter/verify/verify_forward.h"
#include "converter/verify/verify_structure.h"
#include "converter/verify/verify_tensors.h"
#include "format/archive.h"

namespace needle::cli {

// What was proved; parts that were not asked for are empty.
struct Verification {
  verify::StructureReport structure;
  std::vector<verify::TensorsReport> tensors;  // one for each thing compared with
  std::optional<verify::ForwardReport> forward;

  bool passed() const;
};

// Runs `archive` and the float model of `plan` over `sequences`; none: a short built-in text.
absl::StatusOr<verify::ForwardReport> RunForward(const std::string& archive_path,
                                                 std::shared_ptr<const converter::TensorPlan> plan,
                                                 engine::Numerics numerics,
                                                 std::vector<std::vector<uint32_t>> sequences,
                                                 const verify::ForwardOptions& options);

// The first ten of `texts`, and "and N more" when there are more in `total`.
std::vector<std::string> FirstTen(const std::vector<std::string>& texts, uint64_t total);

// Each failure as an error, as FirstTen has them, for commands that print no report.
void TellFailures(const Verification& verification, const Messages& messages);

base::Json VerificationJson(const Verification& verification);
// A few lines that say how much was compared and how it went, then notes and failures, ten of a
// kind.
// `verbose`: a table of all tensors too.
std::string VerificationText(const Verification& verification, bool verbose);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_VERIFICATION_H_
