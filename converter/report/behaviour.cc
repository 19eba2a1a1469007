#include "converter/report/behaviour.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "converter/verify/plan_weights.h"
#include "engine/model.h"
#include "engine/tokenizer.h"

namespace needle::report {
namespace {

using engine::Numerics;

constexpr size_t kMostPositionRows = 32;

struct NamedModel {
  std::string label;
  engine::Model model;
};

absl::Status AddModel(const std::string& kind, std::shared_ptr<const engine::WeightSource> source,
                      Numerics numerics, std::vector<NamedModel>& models) {
  ASSIGN_OR_RETURN(engine::Model model,
                   engine::Model::Load(std::move(source), {.numerics = numerics}));
  models.push_back({absl::StrCat(kind, " (", std::string(engine::NumericsName(numerics)), ")"),
                    std::move(model)});
  return absl::OkStatus();
}

// The reference first, the device's way last.
absl::StatusOr<std::vector<NamedModel>> LoadModels(const ReportInputs& inputs) {
  std::vector<NamedModel> models;
  if (inputs.against) {
    const auto floats = std::make_shared<const verify::PlanWeights>(inputs.against);
    RETURN_IF_ERROR(AddModel("checkpoint", floats, Numerics::kFloat, models));
    RETURN_IF_ERROR(AddModel("checkpoint", floats, Numerics::kA8, models));
  }
  for (const Numerics numerics : {Numerics::kFloat, Numerics::kA8, Numerics::kKernel}) {
    RETURN_IF_ERROR(AddModel("archive", inputs.archive, numerics, models));
  }
  return models;
}

// Positions in rows of equal length, at most kMostPositionRows of them.
std::vector<PositionRow> ByPosition(const std::vector<std::vector<verify::PositionScore>>& scores) {
  size_t longest = 0;
  for (const auto& example : scores) longest = std::max(longest, example.size());
  const size_t step = std::max<size_t>(1, (longest + kMostPositionRows - 1) / kMostPositionRows);
  std::vector<PositionRow> rows;
  for (size_t first = 0; first < longest; first += step) {
    std::vector<verify::PositionScore> here;
    for (const auto& example : scores) {
      for (size_t i = first; i < std::min(first + step, example.size()); ++i) {
        here.push_back(example[i]);
      }
    }
    rows.push_back({.first = first,
                    .last = std::min(first + step, longest) - 1,
                    .divergence = verify::Summarize(here)});
  }
  return rows;
}

RunRow MakeRun(verify::RunResult result) {
  return {.label = std::move(result.label),
          .calls = result.calls,
          .positions = result.positions,
          .perplexity = result.perplexity,
          .divergence = result.divergence,
          .sequences_exact = result.sequences_exact,
          .by_position = ByPosition(result.scores)};
}

// Lost calls first, then gained ones, then the rest; each in file order.
int Rank(const ChangedExample& change) {
  if (change.reference_exact != change.exact) return change.exact ? 1 : 0;
  return 2;
}

void TakeChanges(const verify::EvalReport& report, size_t max_changes, ReportData& data) {
  for (const verify::ChangedAnswer& answer : report.changed) {
    const std::string& mine = answer.answers[data.device_run];
    if (mine == answer.answers[0]) continue;
    data.changes.push_back({.line = answer.line,
                            .query = answer.query,
                            .wanted = answer.wanted,
                            .reference = answer.answers[0],
                            .answer = mine,
                            .reference_exact = answer.exact[0],
                            .exact = answer.exact[data.device_run]});
    const int rank = Rank(data.changes.back());
    data.lost += rank == 0 ? 1U : 0U;
    data.gained += rank == 1 ? 1U : 0U;
  }
  data.changed = data.changes.size();
  std::stable_sort(data.changes.begin(), data.changes.end(),
                   [](const auto& a, const auto& b) { return Rank(a) < Rank(b); });
  data.changes.resize(std::min(data.changes.size(), max_changes));
}

}  // namespace

absl::Status MeasureBehaviour(const ReportInputs& inputs, const ReportOptions& options,
                              ReportData& data) {
  if (!inputs.archive->Tokenizer()) {
    return absl::FailedPreconditionError(
        absl::StrCat(inputs.archive->name(), ": has no tokenizer to read examples with"));
  }
  ASSIGN_OR_RETURN(const engine::Tokenizer tokenizer,
                   engine::Tokenizer::FromSource(*inputs.archive));
  ASSIGN_OR_RETURN(const std::vector<NamedModel> models, LoadModels(inputs));
  std::vector<verify::EvalRun> runs;
  for (const NamedModel& named : models) runs.push_back({named.label, &named.model});
  verify::EvalOptions eval{.max_new_tokens = options.max_new_tokens,
                           .max_tokens = options.max_tokens,
                           .threads = options.threads,
                           .progress = {}};
  if (options.progress) {
    eval.progress = [&](size_t done, size_t total) {
      return options.progress("examples", done, total);
    };
  }
  ASSIGN_OR_RETURN(verify::EvalReport report,
                   verify::Evaluate(runs, tokenizer, inputs.examples, eval));
  data.examples = report.examples;
  data.too_long = report.too_long.size();
  data.device_run = runs.size() - 1;
  TakeChanges(report, options.max_changes, data);
  for (verify::RunResult& run : report.runs) data.runs.push_back(MakeRun(std::move(run)));
  return absl::OkStatus();
}

}  // namespace needle::report
