#include "converter/ladder.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "format/archive.h"
#include "format/slice.h"

namespace needle::converter {
namespace {

absl::Status CheckTargets(const std::vector<LadderTarget>& targets) {
  if (targets.empty()) return absl::InvalidArgumentError("no depth to build");
  std::set<uint32_t> depths;
  std::set<std::string> paths;
  for (const LadderTarget& target : targets) {
    if (!depths.insert(target.depth).second) {
      return absl::InvalidArgumentError(absl::StrFormat("depth %d is given twice", target.depth));
    }
    if (!paths.insert(target.path).second) {
      return absl::InvalidArgumentError(absl::StrCat(target.path, ": is to hold two depths"));
    }
  }
  return absl::OkStatus();
}

// Positions in `all` of the elements of `some`, each of which is there.
std::vector<uint32_t> PositionsIn(const std::vector<uint32_t>& all,
                                  const std::vector<uint32_t>& some) {
  std::vector<uint32_t> positions;
  for (const uint32_t element : some) {
    positions.push_back(
        static_cast<uint32_t>(std::find(all.begin(), all.end(), element) - all.begin()));
  }
  return positions;
}

// What `rung` keeps of the archive of `deepest`.
format::LayerSelection SelectionWithin(const TensorPlan& deepest, const TensorPlan& rung) {
  return {.layers = PositionsIn(deepest.selection().layers, rung.selection().layers),
          .sites = PositionsIn(deepest.selection().sites, rung.selection().sites),
          .geometry = rung.geometry()};
}

std::vector<TensorReport> RungReports(const TensorPlan& rung, const format::LayerSelection& within,
                                      const TensorPlan& deepest,
                                      const std::vector<TensorReport>& reports) {
  std::vector<TensorReport> result;
  const auto& specs = rung.schema().tensors();
  for (size_t i = 0; i < specs.size(); ++i) {
    format::TensorId id = specs[i].id;
    if (format::IsLayerRole(id.role)) id.index = within.layers[id.index];
    if (format::IsEngramRole(id.role)) id.index = within.sites[id.index];
    TensorReport report = reports[*deepest.schema().Find(id)];
    if (report.shape != specs[i].shape) {
      report.stats = {};
      report.vanished_values = 0;
    }
    report.name = specs[i].name;
    report.shape = specs[i].shape;
    report.num_bytes = rung.layout().records[i].num_bytes;
    result.push_back(std::move(report));
  }
  return result;
}

}  // namespace

absl::StatusOr<LadderReport> BuildLadder(const std::shared_ptr<const Checkpoint>& checkpoint,
                                         const PlanOptions& options,
                                         const std::vector<LadderTarget>& targets,
                                         const BuildOptions& build_options) {
  const base::Stopwatch watch;
  RETURN_IF_ERROR(CheckTargets(targets));
  std::vector<TensorPlan> plans;
  size_t deepest = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    PlanOptions rung_options = options;
    rung_options.layers = targets[i].depth;
    ASSIGN_OR_RETURN(TensorPlan plan, TensorPlan::Make(checkpoint, rung_options));
    RETURN_IF_ERROR(base::AtomicFile::CheckTarget(targets[i].path, plan.files()));
    plans.push_back(std::move(plan));
    if (targets[i].depth > targets[deepest].depth) deepest = i;
  }

  LadderReport report;
  ASSIGN_OR_RETURN(report.deepest, Build(plans[deepest], targets[deepest].path, build_options));
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(targets[deepest].path));
  report.rungs.resize(targets.size());
  std::vector<absl::Status> errors(targets.size());
  base::ThreadPool pool(base::ResolveThreads(build_options.threads));
  pool.ParallelFor(targets.size(), 1, [&](size_t i, size_t, size_t) {
    const format::LayerSelection within = SelectionWithin(plans[deepest], plans[i]);
    report.rungs[i] = {
        .depth = targets[i].depth,
        .path = targets[i].path,
        .file_bytes = plans[i].layout().file_bytes,
        .tensors = RungReports(plans[i], within, plans[deepest], report.deepest.tensors)};
    if (i != deepest) errors[i] = format::WriteSlice(archive, within, targets[i].path);
  });
  for (const absl::Status& error : errors) RETURN_IF_ERROR(error);
  report.seconds = watch.Seconds();
  return report;
}

}  // namespace needle::converter
