#include "cli/verification.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/text_table.h"
#include "converter/verify/archive_summary.h"
#include "converter/verify/plan_weights.h"
#include "engine/archive_weights.h"
#include "engine/tokenizer.h"

namespace needle::cli {
namespace {

base::Json StructureJson(const verify::StructureReport& report) {
  return {{"passed", report.passed()},
          {"tensors", report.tensors},
          {"weights", report.weights},
          {"norms", report.norms},
          {"zero_norms", report.zero_norms},
          {"subnormal_norms", report.subnormal_norms},
          {"budget_kv_window", report.budget_kv_window},
          {"failures", report.failures},
          {"num_failures", report.num_failures},
          {"notes", report.notes}};
}

base::Json TensorCheckJson(const verify::TensorCheck& check) {
  base::Json json = {{"name", check.name},
                     {"kind", verify::KindName(check.dtype, check.width)},
                     {"match", std::string(verify::MatchName(check.match))},
                     {"values", check.values},
                     {"nmse", check.nmse}};
  if (check.width) {
    json["theory"] = check.theory;
    json["groups"] = check.groups;
    json["plain_groups"] = check.plain_groups;
    json["index_ties"] = check.index_ties;
    json["norm_ties"] = check.norm_ties;
    json["bad_groups"] = check.bad_groups;
  }
  json["worst"] = {
      {"row", check.worst.row}, {"group", check.worst.group}, {"nmse", check.worst.nmse}};
  json["failures"] = check.failures;
  return json;
}

base::Json TensorsJson(const verify::TensorsReport& report) {
  base::Json checks = base::Json::array();
  for (const verify::TensorCheck& check : report.tensors) checks.push_back(TensorCheckJson(check));
  base::Json limits = base::Json::array();
  for (const verify::HeldLimit& held : report.limits) {
    limits.push_back({{"name", held.name}, {"limit", held.limit}, {"matrices", held.matrices}});
  }
  return {{"passed", report.passed()},
          {"against", report.against},
          {"tensors_compared", report.tensors.size()},
          {"values_compared", report.values},
          {"failures", report.failures},
          {"num_failures", report.num_failures()},
          {"notes", report.notes},
          {"limits", limits},
          {"tensors", checks}};
}

base::Json ForwardJson(const verify::ForwardReport& report) {
  const verify::Divergence& kl = report.divergence;
  return {{"passed", report.passed()},
          {"reference", report.reference},
          {"reference_numerics", std::string(engine::NumericsName(report.reference_numerics))},
          {"archive_numerics", std::string(engine::NumericsName(report.archive_numerics))},
          {"sequences", report.sequences},
          {"positions", kl.positions},
          {"kl_mean", kl.kl_mean},
          {"kl_median", kl.kl_median},
          {"kl_p95", kl.kl_p95},
          {"kl_p99", kl.kl_p99},
          {"kl_max", kl.kl_max},
          {"top1", kl.top1},
          {"reference_perplexity", report.reference_perplexity},
          {"archive_perplexity", report.archive_perplexity},
          {"failures", report.failures}};
}

const char* PassedText(bool passed) { return passed ? "passed" : "FAILED"; }

std::string Lines(const char* label, const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) absl::StrAppend(&lines, "  ", label, text, "\n");
  return lines;
}

// The failures of single tensors, as far as they are listed.
std::vector<std::string> ValueFailures(const verify::TensorsReport& report) {
  std::vector<std::string> failures;
  for (const verify::TensorCheck& check : report.tensors)
    failures.insert(failures.end(), check.failures.begin(), check.failures.end());
  return FirstTen(failures, report.num_failures() - report.failures.size());
}

std::string LimitsText(const verify::TensorsReport& report) {
  std::string text;
  for (const verify::HeldLimit& held : report.limits) {
    absl::StrAppendFormat(&text, "  limit: --%s %g, computed for %d matrices\n", held.name,
                          held.limit, held.matrices);
  }
  return text;
}

std::string TensorsText(const verify::TensorsReport& report, bool verbose) {
  const auto identical =
      std::count_if(report.tensors.begin(), report.tensors.end(),
                    [](const auto& check) { return check.match == verify::Match::kIdentical; });
  std::string text = absl::StrFormat(
      "tensors: %s, %d tensors and %d values compared with %s, %d identical to %s\n",
      PassedText(report.passed()), report.tensors.size(), report.values, report.against, identical,
      report.by_encoder ? "what was chosen" : "plain rounding");
  absl::StrAppend(&text, LimitsText(report),
                  Lines("failure: ", FirstTen(report.failures, report.failures.size())),
                  Lines("failure: ", ValueFailures(report)), Lines("note: ", report.notes));
  if (!verbose) return text;
  TextTable table({"tensor", "kind", "match", ">NMSE", ">theory", ">worst row", ">group", ">NMSE"});
  for (const verify::TensorCheck& check : report.tensors) {
    table.AddRow({check.name, verify::KindName(check.dtype, check.width),
                  std::string(verify::MatchName(check.match)), ErrorText(check.nmse),
                  check.width ? ErrorText(check.theory) : "", absl::StrCat(check.worst.row),
                  absl::StrCat(check.worst.group), ErrorText(check.worst.nmse)});
  }
  return text + table.Text();
}

std::string ForwardText(const verify::ForwardReport& report) {
  const verify::Divergence& kl = report.divergence;
  return absl::StrFormat(
             "forward: %s, %d positions in %d texts, %s against %s numerics of %s\n"
             "  KL divergence: mean %.4g, median %.4g, 95 %% %.4g, 99 %% %.4g, max %.4g\n"
             "  same likeliest token: %.2f %%; perplexity %.4f, in float %.4f\n",
             PassedText(report.passed()), kl.positions, report.sequences,
             std::string(engine::NumericsName(report.archive_numerics)),
             std::string(engine::NumericsName(report.reference_numerics)), report.reference,
             kl.kl_mean, kl.kl_median, kl.kl_p95, kl.kl_p99, kl.kl_max, kl.top1 * 100,
             report.archive_perplexity, report.reference_perplexity) +
         Lines("failure: ", FirstTen(report.failures, report.failures.size()));
}

}  // namespace

std::vector<std::string> FirstTen(const std::vector<std::string>& texts, uint64_t total) {
  constexpr size_t kMost = 10;
  std::vector<std::string> listed(
      texts.begin(), texts.begin() + static_cast<ptrdiff_t>(std::min(texts.size(), kMost)));
  if (total > listed.size()) listed.push_back(absl::StrCat("and ", total - listed.size(), " more"));
  return listed;
}

bool Verification::passed() const {
  return structure.passed() &&
         std::all_of(tensors.begin(), tensors.end(),
                     [](const auto& report) { return report.passed(); }) &&
         (!forward || forward->passed());
}

absl::StatusOr<verify::ForwardReport> RunForward(const std::string& archive_path,
                                                 std::shared_ptr<const converter::TensorPlan> plan,
                                                 engine::Numerics numerics,
                                                 std::vector<std::vector<uint32_t>> sequences,
                                                 const verify::ForwardOptions& options) {
  ASSIGN_OR_RETURN(const auto weights, engine::ArchiveWeights::Open(archive_path));
  ASSIGN_OR_RETURN(const auto archive,
                   engine::Model::Load(weights, {.numerics = numerics, .threads = 1}));
  ASSIGN_OR_RETURN(const auto reference,
                   engine::Model::Load(std::make_shared<const verify::PlanWeights>(std::move(plan)),
                                       {.numerics = engine::Numerics::kFloat, .threads = 1}));
  if (sequences.empty()) {
    std::optional<engine::Tokenizer> tokenizer;
    if (weights->Tokenizer()) {
      ASSIGN_OR_RETURN(tokenizer, engine::Tokenizer::FromSource(*weights));
    }
    sequences = verify::BuiltInSequences(tokenizer ? &*tokenizer : nullptr, weights->geometry());
  }
  return verify::VerifyForward(reference, archive, sequences, options);
}

void TellFailures(const Verification& verification, const Messages& messages) {
  const auto tell = [&messages](const std::vector<std::string>& failures) {
    for (const std::string& failure : failures) messages.Error(failure);
  };
  tell(FirstTen(verification.structure.failures, verification.structure.num_failures));
  for (const verify::TensorsReport& report : verification.tensors) {
    tell(FirstTen(report.failures, report.failures.size()));
    tell(ValueFailures(report));
  }
  if (verification.forward)
    tell(FirstTen(verification.forward->failures, verification.forward->failures.size()));
}

base::Json VerificationJson(const Verification& verification) {
  base::Json tensors = base::Json::array();
  for (const auto& report : verification.tensors) tensors.push_back(TensorsJson(report));
  return {{"passed", verification.passed()},
          {"structure", StructureJson(verification.structure)},
          {"comparisons", tensors},
          {"forward", verification.forward ? ForwardJson(*verification.forward) : base::Json()}};
}

std::string VerificationText(const Verification& verification, bool verbose) {
  const verify::StructureReport& structure = verification.structure;
  std::string text = absl::StrFormat("structure: %s, %d tensors, %d weights, %d norms\n",
                                     PassedText(structure.passed()), structure.tensors,
                                     structure.weights, structure.norms);
  absl::StrAppend(&text, Lines("failure: ", FirstTen(structure.failures, structure.num_failures)),
                  Lines("note: ", structure.notes));
  for (const auto& report : verification.tensors) text += TensorsText(report, verbose);
  if (verification.forward) text += ForwardText(*verification.forward);
  return text;
}

}  // namespace needle::cli
