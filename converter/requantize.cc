#include "converter/requantize.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "converter/archive_job.h"
#include "converter/archive_source.h"

namespace needle::converter {
namespace {

using format::DType;
using format::TensorSpec;
using format::Width;

constexpr uint64_t kRowsAtATime = 64;

// A source whose positions are those of another schema with the same tensors.
class RenumberedSource final : public TensorSource {
 public:
  RenumberedSource(const TensorSource& source, std::vector<size_t> positions)
      : source_(source), positions_(std::move(positions)) {}
  absl::Status ReadRows(size_t position, uint64_t first, uint64_t count,
                        std::span<float> values) const override {
    return source_.ReadRows(positions_[position], first, count, values);
  }

 private:
  const TensorSource& source_;
  std::vector<size_t> positions_;
};

absl::StatusOr<format::ArchiveLayout> NewLayout(const format::Archive& archive,
                                                const quant::BitMap& bit_map) {
  std::vector<format::HeadShape> heads = archive.schema().heads();
  for (format::HeadShape& head : heads) head.fp16_matrices = false;
  const bool has_tokenizer = archive.schema().has_tokenizer();
  ASSIGN_OR_RETURN(const auto schema,
                   format::Schema::Make(archive.geometry(), std::move(heads), has_tokenizer));
  std::vector<uint32_t> layers(archive.geometry().num_layers);
  std::vector<uint32_t> sites(archive.geometry().engram_sites.size());
  std::iota(layers.begin(), layers.end(), 0U);
  std::iota(sites.begin(), sites.end(), 0U);
  ASSIGN_OR_RETURN(const std::vector<Width> widths,
                   bit_map.Resolve(schema, {.layers = layers,
                                            .sites = sites,
                                            .num_layers = archive.geometry().num_layers,
                                            .num_sites = static_cast<uint32_t>(sites.size())}));
  return format::ArchiveLayout::Make(archive.geometry(), schema, widths,
                                     has_tokenizer ? archive.Tokenizer()->size() : 0);
}

// Position in `schema` of each tensor of `of`. FailedPrecondition naming one that it lacks.
absl::StatusOr<std::vector<size_t>> PositionsOf(const format::Schema& of,
                                                const format::Schema& schema,
                                                const std::string& where) {
  std::vector<size_t> positions;
  for (const TensorSpec& spec : of.tensors()) {
    const auto position = schema.Find(spec.id);
    if (!position && spec.dtype != DType::kRaw) {
      return absl::FailedPreconditionError(absl::StrCat(where, ": has no ", spec.name));
    }
    positions.push_back(position.value_or(0));
  }
  return positions;
}

std::string FormatName(const format::Archive& archive, size_t position) {
  const DType dtype = archive.schema().tensors()[position].dtype;
  return std::string(dtype == DType::kCq ? format::WidthName(archive.Cq(position).width)
                                         : format::DTypeName(dtype));
}

// Blobs that stay as they are.
std::vector<std::span<const uint8_t>> Copies(const format::Archive& archive,
                                             const format::ArchiveLayout& layout,
                                             const std::vector<size_t>& old_positions) {
  std::vector<std::span<const uint8_t>> copies;
  for (size_t i = 0; i < layout.records.size(); ++i) {
    const format::Record& old = archive.records()[old_positions[i]];
    const format::Record& now = layout.records[i];
    const bool same = old.dtype == now.dtype && old.bits == now.bits && old.group == now.group;
    copies.push_back(same ? archive.Blob(old_positions[i]) : std::span<const uint8_t>());
  }
  return copies;
}

// Tensors that no width touches say whether the checkpoint is the one that the archive was made
// from: an archive does not tell which blocks of its input it keeps.
absl::Status CheckSameModel(const format::Archive& archive, const TensorPlan& plan) {
  const auto differ = [&](const std::string& what) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s at %d layers is not the model of %s: %s", plan.checkpoint().path(),
                        plan.geometry().num_layers, archive.path(), what));
  };
  format::Geometry planned = plan.geometry();
  planned.kv_window = archive.geometry().kv_window;
  if (!(planned == archive.geometry())) return differ("the geometries differ");
  for (size_t i = 0; i < archive.records().size(); ++i) {
    const TensorSpec& spec = archive.schema().tensors()[i];
    if (spec.dtype != DType::kF16) continue;
    const auto position = plan.schema().Find(spec.id);
    if (!position || plan.schema().tensors()[*position].shape != spec.shape) continue;
    ASSIGN_OR_RETURN(const auto values, ReadTensor(plan, plan.schema(), *position));
    const std::vector<float> stored = archive.Floats(i);
    const bool same = std::equal(
        values.begin(), values.end(), stored.begin(), stored.end(),
        [](float value, float half) { return base::F16FromF32(value) == base::F16FromF32(half); });
    if (!same) return differ(absl::StrCat(spec.name, " differs"));
  }
  return absl::OkStatus();
}

// Mean squared difference over mean square of tensor `position` of both sources.
absl::StatusOr<double> Difference(const TensorSource& old_source, const TensorSource& new_source,
                                  size_t position, const TensorSpec& spec) {
  const uint64_t cols = TensorCols(spec);
  std::vector<float> before(kRowsAtATime * cols);
  std::vector<float> after(kRowsAtATime * cols);
  double error = 0;
  double square = 0;
  for (uint64_t row = 0; row < TensorRows(spec); row += kRowsAtATime) {
    const uint64_t count = std::min(kRowsAtATime, TensorRows(spec) - row);
    const auto old_rows = std::span(before).first(count * cols);
    const auto new_rows = std::span(after).first(count * cols);
    RETURN_IF_ERROR(old_source.ReadRows(position, row, count, old_rows));
    RETURN_IF_ERROR(new_source.ReadRows(position, row, count, new_rows));
    for (size_t i = 0; i < old_rows.size(); ++i) {
      const double value = static_cast<double>(old_rows[i]);
      const double change = static_cast<double>(new_rows[i]) - value;
      error += change * change;
      square += value * value;
    }
  }
  return square == 0 ? 0 : error / square;
}

absl::StatusOr<std::vector<WidthChange>> MeasureChanges(const format::Archive& archive,
                                                        const TensorSource& old_source,
                                                        const std::vector<size_t>& old_positions,
                                                        const ArchiveJob& job,
                                                        const std::string& target) {
  ASSIGN_OR_RETURN(const format::Archive written, format::Archive::Open(target));
  ASSIGN_OR_RETURN(const ArchiveSource new_source, ArchiveSource::Make(written));
  std::vector<WidthChange> changes;
  for (size_t i = 0; i < job.copies.size(); ++i) {
    if (!job.copies[i].empty()) continue;
    changes.push_back({.position = i,
                       .name = written.schema().tensors()[i].name,
                       .old_format = FormatName(archive, old_positions[i]),
                       .new_width = written.Cq(i).width,
                       .added_loss = 0});
  }
  std::vector<absl::Status> errors(changes.size());
  base::ThreadPool pool(base::ResolveThreads(job.threads));
  pool.ParallelFor(changes.size(), 1, [&](size_t i, size_t, size_t) {
    const auto loss = Difference(old_source, new_source, changes[i].position,
                                 written.schema().tensors()[changes[i].position]);
    errors[i] = loss.status();
    if (loss.ok()) changes[i].added_loss = *loss;
  });
  for (const absl::Status& error : errors) RETURN_IF_ERROR(error);
  return changes;
}

}  // namespace

absl::StatusOr<TensorPlan> PlanForArchive(std::shared_ptr<const Checkpoint> checkpoint,
                                          const format::Archive& archive,
                                          const std::vector<std::string>& adapters,
                                          bool keep_confidence) {
  PlanOptions options;
  options.layers = archive.geometry().num_layers;
  options.adapters = adapters;
  options.keep_confidence = keep_confidence;
  options.tokenizer = "";
  return TensorPlan::Make(std::move(checkpoint), options);
}

absl::StatusOr<RequantizeReport> Requantize(const format::Archive& archive,
                                            const std::string& target,
                                            const RequantizeOptions& options) {
  const base::Stopwatch watch;
  std::vector<std::string> inputs = {archive.path()};
  if (options.from != nullptr) {
    for (std::string& file : options.from->files()) inputs.push_back(std::move(file));
    RETURN_IF_ERROR(CheckSameModel(archive, *options.from));
  }
  RETURN_IF_ERROR(base::AtomicFile::CheckTarget(target, inputs));

  ASSIGN_OR_RETURN(const format::ArchiveLayout layout, NewLayout(archive, options.bit_map));
  ASSIGN_OR_RETURN(const std::vector<size_t> old_positions,
                   PositionsOf(layout.schema, archive.schema(), archive.path()));
  ASSIGN_OR_RETURN(const ArchiveSource own, ArchiveSource::Make(archive));
  const RenumberedSource old_source(own, old_positions);
  std::optional<RenumberedSource> planned;
  if (options.from != nullptr) {
    ASSIGN_OR_RETURN(
        std::vector<size_t> positions,
        PositionsOf(layout.schema, options.from->schema(), options.from->checkpoint().path()));
    planned.emplace(*options.from, std::move(positions));
  }
  const bool has_codebooks = !archive.codebooks().empty();
  const ArchiveJob job{.input = planned ? options.from->checkpoint().path() : archive.path(),
                       .layout = &layout,
                       .codebooks = has_codebooks
                                        ? archive.codebooks()
                                        : quant::StoredCodebooks(quant::CodebookKind::kReference),
                       .source = planned ? &*planned : &old_source,
                       .tokenizer = archive.Tokenizer().value_or(std::span<const uint8_t>()),
                       .encoder = options.encoder ? options.encoder : &RoundToNearest(),
                       .copies = Copies(archive, layout, old_positions),
                       .threads = options.threads,
                       .progress = options.progress};
  RequantizeReport report;
  ASSIGN_OR_RETURN(report.tensors, WriteArchive(job, target));
  ASSIGN_OR_RETURN(report.changes, MeasureChanges(archive, old_source, old_positions, job, target));
  report.path = target;
  report.file_bytes = layout.file_bytes;
  report.from_archive = options.from == nullptr;
  report.warnings = ValueWarnings(report.tensors);
  report.seconds = watch.Seconds();
  return report;
}

}  // namespace needle::converter
