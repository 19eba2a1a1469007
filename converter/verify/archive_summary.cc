#include "converter/verify/archive_summary.h"

#include <algorithm>
#include <map>
#include <utility>

#include "quant/codebook.h"

namespace needle::verify {
namespace {

std::optional<format::Width> WidthOf(const format::Record& record) {
  if (record.dtype != static_cast<uint8_t>(format::DType::kCq)) return std::nullopt;
  return format::WidthFromRecordBits(record.bits);
}

// Collects totals in the order of SummariseKinds.
class Kinds {
 public:
  // The totals of a kind, whose names are set.
  KindTotals& Of(format::DType dtype, std::optional<format::Width> width) {
    // CQ stands before the others; ternary between binary and CQ2.
    const double order = !width                              ? 10 + static_cast<double>(dtype)
                         : *width == format::Width::kTernary ? 1.58
                                                             : static_cast<double>(*width);
    KindTotals& totals = kinds_[order];
    totals.kind = KindName(dtype, width);
    totals.width = width;
    return totals;
  }
  std::vector<KindTotals> List() && {
    std::vector<KindTotals> list;
    for (auto& [order, totals] : kinds_) list.push_back(std::move(totals));
    return list;
  }

 private:
  std::map<double, KindTotals> kinds_;
};

void Count(KindTotals& totals, const std::vector<uint32_t>& shape, uint64_t bytes) {
  ++totals.tensors;
  totals.bytes += bytes;
  // RAW has no shape.
  if (!shape.empty()) totals.values += format::NumValues(shape).value_or(0);
}

}  // namespace

std::string KindName(const format::Record& record) {
  return KindName(static_cast<format::DType>(record.dtype), WidthOf(record));
}

std::string KindName(format::DType dtype, std::optional<format::Width> width) {
  return std::string(width ? format::WidthName(*width) : format::DTypeName(dtype));
}

std::vector<KindTotals> SummariseKinds(const format::Schema& schema,
                                       const std::vector<format::Record>& records) {
  Kinds kinds;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto dtype = static_cast<format::DType>(records[i].dtype);
    Count(kinds.Of(dtype, WidthOf(records[i])), schema.tensors()[i].shape, records[i].num_bytes);
  }
  return std::move(kinds).List();
}

std::vector<KindTotals> SummariseBuild(const converter::BuildReport& report) {
  Kinds kinds;
  std::map<format::Width, quant::EncodeStats> stats;
  for (const converter::TensorReport& tensor : report.tensors) {
    Count(kinds.Of(tensor.dtype, tensor.width), tensor.shape, tensor.num_bytes);
    if (tensor.width) stats[*tensor.width].Add(tensor.stats);
  }
  for (const auto& [width, sum] : stats) {
    KindTotals& totals = kinds.Of(format::DType::kCq, width);
    totals.error = sum.RelativeError();
    totals.theory = quant::TheoreticalDistortion(width);
  }
  return std::move(kinds).List();
}

std::vector<KindTotals> SummariseLeaves(std::span<const converter::Leaf> leaves) {
  std::map<std::string, KindTotals> types;
  for (const converter::Leaf& leaf : leaves) {
    KindTotals& totals = types[leaf.type_name];
    totals.kind = leaf.type_name;
    const uint64_t values = converter::NumLeafValues(leaf.shape).value_or(0);
    ++totals.tensors;
    totals.values += values;
    if (leaf.type) totals.bytes += values * quant::SourceBytes(*leaf.type);
  }
  std::vector<KindTotals> list;
  for (auto& [name, totals] : types) list.push_back(std::move(totals));
  return list;
}

std::string CodebookOrigin(std::span<const float> codebooks) {
  if (codebooks.empty()) return "none";
  const auto equals = [&](quant::CodebookKind kind) {
    return std::ranges::equal(codebooks, quant::StoredCodebooks(kind));
  };
  return equals(quant::CodebookKind::kReference)  ? "reference"
         : equals(quant::CodebookKind::kAnalytic) ? "analytic"
                                                  : "other";
}

std::vector<NamedValue> HeaderTexts(const format::Header& header) {
  const std::span<const format::HeaderField> fields =
      format::HeaderFields(header.geometry.generation);
  std::vector<std::string> values = format::HeaderValues(header);
  std::vector<NamedValue> texts;
  for (size_t i = 0; i < fields.size(); ++i) {
    texts.push_back({std::string(fields[i].name), std::move(values[i])});
  }
  return texts;
}

}  // namespace needle::verify
