#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/text_table.h"
#include "converter/verify/archive_diff.h"
#include "format/archive.h"

namespace needle::cli {
namespace {

struct DiffOptions {
  std::string a, b;
  bool json = false;
};

base::Json ValuesJson(const std::vector<verify::ValueDifference>& values) {
  base::Json array = base::Json::array();
  for (const auto& value : values) {
    array.push_back({{"name", value.name}, {"a", value.a}, {"b", value.b}});
  }
  return array;
}

template <typename T>
base::Json OptionalJson(const std::optional<T>& value) {
  return value ? base::Json(*value) : base::Json(nullptr);
}

base::Json DiffJson(const verify::ArchiveDiff& diff, const DiffOptions& options) {
  base::Json tensors = base::Json::array();
  for (const verify::TensorDifference& tensor : diff.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"kind_a", tensor.kind_a},
                       {"kind_b", tensor.kind_b},
                       {"shape_a", tensor.shape_a},
                       {"shape_b", tensor.shape_b},
                       {"indices_flipped", OptionalJson(tensor.indices_flipped)},
                       {"norms_changed", OptionalJson(tensor.norms_changed)},
                       {"largest_norm_step", tensor.largest_norm_step},
                       {"values_changed", OptionalJson(tensor.values_changed)},
                       {"nmse", OptionalJson(tensor.nmse)}});
  }
  return {{"a", options.a},
          {"b", options.b},
          {"verdict", verify::DiffVerdictText(diff.verdict)},
          {"same_model", diff.same_model()},
          {"tensors_compared", diff.tensors_compared},
          {"header", ValuesJson(diff.header)},
          {"codebooks", ValuesJson(diff.codebooks)},
          {"tokenizer", ValuesJson(diff.tokenizer)},
          {"tensors", tensors},
          {"only_in_a", diff.only_in_a},
          {"only_in_b", diff.only_in_b}};
}

std::string ValuesText(const char* what, const std::vector<verify::ValueDifference>& values) {
  if (values.empty()) return "";
  TextTable table({what, "a", "b"});
  for (const auto& value : values) table.AddRow({value.name, value.a, value.b});
  return "\n" + table.Text();
}

std::string Change(const std::string& a, const std::string& b) {
  return a == b ? a : absl::StrCat(a, " -> ", b);
}

std::string CountText(const std::optional<uint64_t>& count) {
  return count ? absl::StrCat(*count) : "-";
}

std::string TensorsText(const std::vector<verify::TensorDifference>& tensors) {
  if (tensors.empty()) return "";
  TextTable table(
      {"tensor", "kind", "shape", ">indices", ">norms", ">f16 steps", ">values", ">NMSE"});
  for (const verify::TensorDifference& tensor : tensors) {
    table.AddRow({tensor.name, Change(tensor.kind_a, tensor.kind_b),
                  Change(tensor.shape_a, tensor.shape_b), CountText(tensor.indices_flipped),
                  CountText(tensor.norms_changed),
                  tensor.norms_changed ? absl::StrCat(tensor.largest_norm_step) : "-",
                  CountText(tensor.values_changed), tensor.nmse ? ErrorText(*tensor.nmse) : "-"});
  }
  return "\n" + table.Text();
}

std::string NamesText(const std::string& path, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, "only in ", path, ": ", name, "\n");
  return text;
}

std::string DiffText(const verify::ArchiveDiff& diff, const DiffOptions& options) {
  std::string text = verify::DiffVerdictText(diff.verdict);
  if (diff.verdict != verify::DiffVerdict::kByteIdentical) {
    absl::StrAppendFormat(&text, "; %d of %d tensors differ", diff.tensors.size(),
                          diff.tensors_compared);
    if (!diff.tokenizer.empty()) text += "; the tokenizers differ";
  }
  return absl::StrCat(text, "\n", NamesText(options.a, diff.only_in_a),
                      NamesText(options.b, diff.only_in_b), ValuesText("header", diff.header),
                      ValuesText("codebooks", diff.codebooks),
                      ValuesText("tokenizer", diff.tokenizer), TensorsText(diff.tensors));
}

absl::StatusOr<ExitCode> RunDiff(const DiffOptions& options, Session& session) {
  ASSIGN_OR_RETURN(const format::Archive a, format::Archive::Open(options.a));
  ASSIGN_OR_RETURN(const format::Archive b, format::Archive::Open(options.b));
  ASSIGN_OR_RETURN(const verify::ArchiveDiff diff, verify::DiffArchives(a, b));
  if (options.json) {
    session.out.WriteJson(DiffJson(diff, options));
  } else {
    session.out.Write(DiffText(diff, options));
  }
  return diff.same_model() ? ExitCode::kDone : ExitCode::kVerificationDiffers;
}

}  // namespace

void AddDiff(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "diff",
      .heading = kLookHeading,
      .summary = "what differs between two archives",
      .description =
          "Compares two archives: header fields, codebooks, tokenizer pieces, and for each tensor "
          "its width, the indices that flipped, the norms that changed (and by how many f16 "
          "steps), and the error of the decoded values. Exits with 0 when the files are "
          "byte-identical or hold the same weights and tokenizer, with 4 when they differ.",
      .examples = {{"diff a.cact b.cact", "what changed"}},
  });
  auto options = std::make_shared<DiffOptions>();
  command.Add({.names = "a", .value = "FILE", .help = "an archive", .required = true}, &options->a);
  command.Add(
      {.names = "b", .value = "FILE", .help = "the archive to compare it with", .required = true},
      &options->b);
  AddJsonOption(command, &options->json);
  command.OnRun([options](Session& session) { return RunDiff(*options, session); });
}

}  // namespace needle::cli
