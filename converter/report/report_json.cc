#include "converter/report/report_json.h"

#include <string>

#include "quant/codebook.h"

namespace needle::report {
namespace {

using base::Json;

template <typename Rows, typename ToJson>
Json ArrayOf(const Rows& rows, const ToJson& to_json) {
  Json result = Json::array();
  for (const auto& row : rows) result.push_back(to_json(row));
  return result;
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

std::string WidthKey(format::Width width) { return std::string(format::WidthText(width)); }

Json SummaryJson(const Summary& summary) {
  return {{"archive", summary.archive},
          {"against", TextOrNull(summary.against)},
          {"data", TextOrNull(summary.data)},
          {"generation", summary.generation},
          {"layers", summary.layers},
          {"d_model", summary.d_model},
          {"vocab", summary.vocab},
          {"max_seq_len", summary.max_seq_len},
          {"kv_window", summary.kv_window},
          {"kv_bits", summary.kv_bits},
          {"bytes", summary.file_bytes},
          {"cq_weights", summary.cq_weights},
          {"bits_per_weight", summary.bits_per_weight},
          {"bit_map", summary.bit_map},
          {"tokenizer_pieces", summary.tokenizer_pieces},
          {"heads", summary.heads}};
}

Json SizeJson(const SizeRow& row) {
  return {
      {"kind", row.kind}, {"tensors", row.tensors}, {"values", row.values}, {"bytes", row.bytes}};
}

Json TensorJson(const TensorRow& row, bool has_errors) {
  Json json = {{"name", row.name},
               {"width", WidthKey(row.width)},
               {"shape", {row.rows, row.cols}},
               {"bytes", row.bytes}};
  if (!has_errors) return json;
  json["error"] = row.error;
  json["theory"] = quant::TheoreticalDistortion(row.width);
  json["worst_group"] = row.worst_group;
  json["plain_groups"] = row.plain_groups;
  return json;
}

Json PlaceJson(const PlaceRow& row) {
  return {
      {"place", row.place}, {"weights", row.weights}, {"error", row.error}, {"theory", row.theory}};
}

Json IndicesJson(const IndexHistogram& histogram) {
  return {{"width", WidthKey(histogram.width)},
          {"entries", histogram.entries},
          {"counts", histogram.counts},
          {"expected", histogram.expected}};
}

Json NormsJson(const NormHistogram& norms) {
  return {{"first_exponent", norms.first_exponent},
          {"exponent_step", 0.5},
          {"counts", norms.counts},
          {"total", norms.total},
          {"zero", norms.zero},
          {"subnormal", norms.subnormal},
          {"smallest", norms.smallest},
          {"largest", norms.largest}};
}

Json DivergenceJson(const verify::Divergence& divergence) {
  return {{"positions", divergence.positions}, {"not_finite", divergence.not_finite},
          {"kl_mean", divergence.kl_mean},     {"kl_median", divergence.kl_median},
          {"kl_p95", divergence.kl_p95},       {"kl_p99", divergence.kl_p99},
          {"kl_max", divergence.kl_max},       {"top1", divergence.top1}};
}

Json PositionJson(const PositionRow& row) {
  Json json = {{"first", row.first}, {"last", row.last}};
  json.update(DivergenceJson(row.divergence));
  return json;
}

Json RunJson(const RunRow& run) {
  Json json = {{"run", run.label},
               {"exact", run.calls.exact},
               {"unparsable", run.calls.unparsable},
               {"over_calling", run.calls.over_calling},
               {"under_calling", run.calls.under_calling},
               {"new_tokens", run.calls.new_tokens},
               {"positions", run.positions},
               {"perplexity", run.perplexity}};
  if (!run.divergence) return json;
  json["divergence"] = DivergenceJson(*run.divergence);
  json["sequences_exact"] = run.sequences_exact;
  json["by_position"] = ArrayOf(run.by_position, PositionJson);
  return json;
}

Json ChangeJson(const ChangedExample& change) {
  return {{"line", change.line},     {"query", change.query},
          {"wanted", change.wanted}, {"reference", change.reference},
          {"answer", change.answer}, {"reference_exact", change.reference_exact},
          {"exact", change.exact}};
}

Json BehaviourJson(const ReportData& data) {
  return {{"examples", data.examples},
          {"too_long", data.too_long},
          {"reference", data.runs[0].label},
          {"device", data.runs[data.device_run].label},
          {"runs", ArrayOf(data.runs, RunJson)},
          {"changed", data.changed},
          {"lost", data.lost},
          {"gained", data.gained},
          {"changes", ArrayOf(data.changes, ChangeJson)}};
}

}  // namespace

Json ReportJson(const ReportData& data) {
  const bool has_errors = data.has_errors();
  Json json = {
      {"summary", SummaryJson(data.summary)},
      {"sizes", ArrayOf(data.sizes, SizeJson)},
      {"tensors",
       ArrayOf(data.tensors, [&](const TensorRow& row) { return TensorJson(row, has_errors); })},
      {"indices", ArrayOf(data.indices, IndicesJson)},
      {"norms", NormsJson(data.norms)}};
  if (has_errors) {
    json["places"] = ArrayOf(data.places, PlaceJson);
    json["verification"] = {{"failures", data.failures}, {"texts", data.failure_texts}};
  }
  if (!data.runs.empty()) json["behaviour"] = BehaviourJson(data);
  return json;
}

}  // namespace needle::report
