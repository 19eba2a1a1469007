#include "converter/report/collect.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "converter/report/behaviour.h"
#include "converter/tensor_source.h"
#include "converter/verify/verify_tensors.h"
#include "engine/tokenizer.h"
#include "quant/bit_map_of.h"
#include "quant/codebook.h"

namespace needle::report {
namespace {

using format::TensorRole;

std::string PlaceOf(format::TensorId id) {
  if (format::IsLayerRole(id.role)) return absl::StrCat("layer ", id.index);
  if (format::IsEngramRole(id.role)) return absl::StrCat("engram ", id.index);
  if (format::IsHeadRole(id.role)) return "heads";
  return id.role == TensorRole::kEmbedding ? "embedding" : "mhc";
}

std::string SizeKind(const format::TensorSpec& spec) {
  if (spec.dtype == format::DType::kRaw) return "tokenizer";
  if (spec.dtype != format::DType::kCq) {
    return absl::StrCat(std::string(format::DTypeName(spec.dtype)), " tensors");
  }
  const TensorRole role = spec.id.role;
  if (role == TensorRole::kEmbedding) return "embedding";
  if (role == TensorRole::kEngramTables) return "engram tables";
  if (format::IsEngramRole(role)) return "engram projections";
  if (format::IsHeadRole(role)) return "head matrices";
  return format::IsLayerRole(role) ? "attention projections" : "mhc matrices";
}

void AddSize(const std::string& kind, uint64_t tensors, uint64_t values, uint64_t bytes,
             std::vector<SizeRow>& rows) {
  auto row = std::find_if(rows.begin(), rows.end(),
                          [&](const SizeRow& other) { return other.kind == kind; });
  if (row == rows.end()) row = rows.insert(rows.end(), {.kind = kind});
  row->tensors += tensors;
  row->values += values;
  row->bytes += bytes;
}

// Kinds in the order in which the file has them first, then what is no tensor.
std::vector<SizeRow> Sizes(const format::Archive& archive) {
  std::vector<SizeRow> rows;
  uint64_t blobs = 0;
  for (size_t i = 0; i < archive.records().size(); ++i) {
    const format::TensorSpec& spec = archive.schema().tensors()[i];
    const bool raw = spec.dtype == format::DType::kRaw;
    AddSize(SizeKind(spec), 1, raw ? 0 : format::NumValues(spec.shape).value_or(0),
            archive.records()[i].num_bytes, rows);
    blobs += archive.records()[i].num_bytes;
  }
  const uint64_t front = format::DirectoryEnd(archive.header());
  AddSize("header, codebooks, directory", 0, 0, front, rows);
  AddSize("alignment", 0, 0, archive.bytes().size() - front - blobs, rows);
  return rows;
}

std::vector<format::Width> WidthsOf(const format::Archive& archive) {
  std::vector<format::Width> widths;
  for (const format::Record& record : archive.records()) {
    widths.push_back(format::WidthFromRecordBits(record.bits).value_or(format::Width::kCq4));
  }
  return widths;
}

Summary Summarise(const ReportInputs& inputs) {
  const format::Archive& archive = inputs.archive->archive();
  const format::Geometry& geometry = archive.geometry();
  Summary result{.archive = archive.path(), .data = inputs.data};
  if (inputs.against) result.against = inputs.against->checkpoint().path();
  result.generation = format::GenerationName(geometry.generation);
  result.layers = geometry.num_layers;
  result.d_model = geometry.d_model;
  result.vocab = geometry.vocab;
  result.max_seq_len = geometry.max_seq_len;
  result.kv_window = geometry.kv_window;
  result.kv_bits = geometry.kv_bits;
  result.file_bytes = archive.bytes().size();
  result.bit_map = quant::BitMapTextOf(archive.schema(), WidthsOf(archive));
  for (const format::HeadShape& head : archive.schema().heads()) {
    result.heads.emplace_back(format::HeadName(head.kind));
  }
  return result;
}

// Without errors.
std::vector<TensorRow> Tensors(const format::Archive& archive) {
  std::vector<TensorRow> rows;
  for (size_t i = 0; i < archive.records().size(); ++i) {
    const format::TensorSpec& spec = archive.schema().tensors()[i];
    if (spec.dtype != format::DType::kCq) continue;
    rows.push_back({.name = spec.name,
                    .place = PlaceOf(spec.id),
                    .role = std::string(format::RoleName(spec.id.role)),
                    .width = archive.Cq(i).width,
                    .rows = converter::TensorRows(spec),
                    .cols = converter::TensorCols(spec),
                    .bytes = archive.records()[i].num_bytes});
  }
  return rows;
}

void CountWeights(std::span<const TensorRow> tensors, Summary& summary) {
  uint64_t bytes = 0;
  for (const TensorRow& tensor : tensors) {
    summary.cq_weights += tensor.rows * tensor.cols;
    bytes += tensor.bytes;
  }
  if (summary.cq_weights == 0) return;
  summary.bits_per_weight =
      8 * static_cast<double>(bytes) / static_cast<double>(summary.cq_weights);
}

void TakeErrors(const verify::TensorsReport& report, ReportData& data) {
  data.failures = report.num_failures();
  data.failure_texts = report.failures;
  for (const verify::TensorCheck& check : report.tensors) {
    verify::AppendFailures(check.failures, data.failure_texts);
    const auto row =
        std::find_if(data.tensors.begin(), data.tensors.end(),
                     [&](const TensorRow& tensor) { return tensor.name == check.name; });
    if (row == data.tensors.end()) continue;
    row->error = check.nmse;
    row->worst_group = check.worst.nmse;
    if (check.groups == 0) continue;
    row->plain_groups = static_cast<double>(check.plain_groups) / static_cast<double>(check.groups);
  }
}

// In file order of each place's first tensor.
std::vector<PlaceRow> Places(std::span<const TensorRow> tensors) {
  std::vector<PlaceRow> rows;
  for (const TensorRow& tensor : tensors) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const PlaceRow& other) { return other.place == tensor.place; });
    if (row == rows.end()) row = rows.insert(rows.end(), {.place = tensor.place});
    const uint64_t weights = tensor.rows * tensor.cols;
    row->weights += weights;
    row->error += static_cast<double>(weights) * tensor.error;
    row->theory += static_cast<double>(weights) * quant::TheoreticalDistortion(tensor.width);
  }
  for (PlaceRow& row : rows) {
    row.error /= static_cast<double>(row.weights);
    row.theory /= static_cast<double>(row.weights);
  }
  return rows;
}

absl::Status MeasureErrors(const ReportInputs& inputs, const ReportOptions& options,
                           ReportData& data) {
  verify::TensorsOptions verify_options{.limits = {}, .threads = options.threads, .progress = {}};
  if (options.progress) {
    verify_options.progress = [&](uint64_t done, uint64_t total) {
      return options.progress("tensors", done, total);
    };
  }
  ASSIGN_OR_RETURN(
      const verify::TensorsReport report,
      verify::VerifyAgainstPlan(inputs.archive->archive(), *inputs.against, verify_options));
  TakeErrors(report, data);
  data.places = Places(data.tensors);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TokenizerPieces(const engine::ArchiveWeights& archive) {
  if (!archive.Tokenizer()) return 0;
  ASSIGN_OR_RETURN(const engine::Tokenizer tokenizer, engine::Tokenizer::FromSource(archive));
  return tokenizer.table().pieces.size();
}

}  // namespace

absl::StatusOr<ReportData> CollectReport(const ReportInputs& inputs, const ReportOptions& options) {
  const format::Archive& archive = inputs.archive->archive();
  ReportData data;
  data.summary = Summarise(inputs);
  ASSIGN_OR_RETURN(data.summary.tokenizer_pieces, TokenizerPieces(*inputs.archive));
  data.sizes = Sizes(archive);
  data.tensors = Tensors(archive);
  CountWeights(data.tensors, data.summary);
  ASSIGN_OR_RETURN(data.indices, CountIndices(archive));
  data.norms = CountNorms(archive);
  if (inputs.against) RETURN_IF_ERROR(MeasureErrors(inputs, options, data));
  if (!inputs.examples.empty()) RETURN_IF_ERROR(MeasureBehaviour(inputs, options, data));
  return data;
}

}  // namespace needle::report
