#include "cli/report_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/text_table.h"
#include "quant/codebook.h"

namespace needle::cli {

std::string KindsText(const std::vector<verify::KindTotals>& kinds) {
  const bool errors = std::any_of(kinds.begin(), kinds.end(),
                                  [](const auto& kind) { return kind.error.has_value(); });
  std::vector<std::string> headings = {"kind", ">tensors", ">bytes", ">size"};
  if (errors) headings.insert(headings.end(), {">error", ">theory"});
  TextTable table(headings);
  verify::KindTotals all{.kind = "all"};
  const auto add = [&](const verify::KindTotals& kind) {
    std::vector<std::string> cells = {kind.kind, absl::StrCat(kind.tensors),
                                      absl::StrCat(kind.bytes), BytesText(kind.bytes)};
    if (errors) {
      cells.push_back(kind.error ? ErrorText(*kind.error) : "");
      cells.push_back(kind.theory ? ErrorText(*kind.theory) : "");
    }
    table.AddRow(std::move(cells));
  };
  for (const verify::KindTotals& kind : kinds) {
    add(kind);
    all.tensors += kind.tensors;
    all.bytes += kind.bytes;
  }
  add(all);
  return table.Text();
}

base::Json KindsJson(const std::vector<verify::KindTotals>& kinds) {
  base::Json array = base::Json::array();
  for (const verify::KindTotals& kind : kinds) {
    base::Json entry = {{"kind", kind.kind},
                        {"tensors", kind.tensors},
                        {"values", kind.values},
                        {"bytes", kind.bytes}};
    if (kind.error) entry["error"] = *kind.error;
    if (kind.theory) entry["theory"] = *kind.theory;
    array.push_back(std::move(entry));
  }
  return array;
}

base::Json HeaderJson(const format::Header& header) {
  base::Json object = base::Json::object();
  for (const auto& [name, value] : verify::HeaderTexts(header)) {
    // The tag is hexadecimal and stays a text.
    const absl::StatusOr<base::Json> number = base::ParseJson(value);
    object[name] = number.ok() ? *number : base::Json(value);
  }
  return object;
}

base::Json LayoutJson(const format::Schema& schema, const std::vector<format::Record>& records) {
  base::Json array = base::Json::array();
  for (size_t i = 0; i < records.size(); ++i) {
    const format::TensorSpec& spec = schema.tensors()[i];
    const format::Record& record = records[i];
    array.push_back({{"name", spec.name},
                     {"kind", verify::KindName(record)},
                     {"shape", spec.shape},
                     {"bytes", record.num_bytes},
                     {"offset", record.offset}});
  }
  return array;
}

std::string LayoutText(const format::Schema& schema, const std::vector<format::Record>& records) {
  TextTable table({"tensor", "kind", "shape", ">bytes", ">offset"});
  for (size_t i = 0; i < records.size(); ++i) {
    const format::TensorSpec& spec = schema.tensors()[i];
    const format::Record& record = records[i];
    table.AddRow({spec.name, verify::KindName(record), format::ShapeText(spec.shape),
                  absl::StrCat(record.num_bytes), absl::StrCat(record.offset)});
  }
  return table.Text();
}

base::Json TensorReportsJson(const std::vector<converter::TensorReport>& tensors) {
  base::Json array = base::Json::array();
  for (const converter::TensorReport& tensor : tensors) {
    base::Json entry = {{"name", tensor.name},
                        {"kind", verify::KindName(tensor.dtype, tensor.width)},
                        {"shape", tensor.shape},
                        {"bytes", tensor.num_bytes}};
    if (tensor.width) {
      entry["error"] = tensor.stats.RelativeError();
      entry["theory"] = quant::TheoreticalDistortion(*tensor.width);
      entry["zero_groups"] = tensor.stats.zero_groups;
      entry["subnormal_norms"] = tensor.stats.subnormal_norms;
      entry["recipe"] = tensor.recipe;
    } else {
      entry["vanished_values"] = tensor.vanished_values;
    }
    array.push_back(std::move(entry));
  }
  return array;
}

std::string TensorReportsText(const std::vector<converter::TensorReport>& tensors) {
  TextTable table({"tensor", "kind", "shape", ">bytes", ">error", ">theory", "recipe"});
  for (const converter::TensorReport& tensor : tensors) {
    table.AddRow({tensor.name, verify::KindName(tensor.dtype, tensor.width),
                  format::ShapeText(tensor.shape), absl::StrCat(tensor.num_bytes),
                  tensor.width ? ErrorText(tensor.stats.RelativeError()) : "",
                  tensor.width ? ErrorText(quant::TheoreticalDistortion(*tensor.width)) : "",
                  tensor.recipe});
  }
  return table.Text();
}

base::Json TellWarnings(const std::vector<std::string>& warnings, const Messages& messages) {
  for (const std::string& warning : warnings) messages.Warning(warning);
  return warnings;
}

std::string ArchiveLine(const format::Archive& archive) {
  return absl::StrFormat("%s: %s, %d layers, %d tensors, %d bytes (%s)\n", archive.path(),
                         format::GenerationName(archive.geometry().generation),
                         archive.geometry().num_layers, archive.records().size(),
                         archive.bytes().size(), BytesText(archive.bytes().size()));
}

}  // namespace needle::cli
