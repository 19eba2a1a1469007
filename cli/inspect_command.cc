#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/report_text.h"
#include "cli/text_table.h"
#include "converter/checkpoint.h"
#include "converter/model_config.h"
#include "converter/verify/archive_summary.h"
#include "format/archive.h"
#include "format/tokenizer_table.h"

namespace needle::cli {
namespace {

struct InspectOptions {
  std::string path;
  bool json = false;
  bool verbose = false;
};

std::string HeaderText(const format::Header& header) {
  TextTable table({"field", "value"});
  for (const auto& [name, value] : verify::HeaderTexts(header)) table.AddRow({name, value});
  return table.Text();
}

base::Json HeadsJson(const format::Schema& schema) {
  base::Json heads = base::Json::array();
  for (const format::HeadShape& head : schema.heads()) {
    heads.push_back({{"head", std::string(format::HeadName(head.kind))},
                     {"probes", head.probes},
                     {"queries", head.queries},
                     {"out", head.out}});
  }
  return heads;
}

std::string HeadsText(const format::Schema& schema) {
  std::string names;
  for (const format::HeadShape& head : schema.heads()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(format::HeadName(head.kind)));
  }
  return names.empty() ? "none" : names;
}

absl::StatusOr<base::Json> TokenizerJson(const format::Archive& archive) {
  const auto bytes = archive.Tokenizer();
  if (!bytes) return base::Json(nullptr);
  ASSIGN_OR_RETURN(const auto table,
                   format::TokenizerTable::Parse(*bytes, archive.geometry().vocab));
  return base::Json{{"pieces", table.pieces.size()},
                    {"bytes", bytes->size()},
                    {"add_dummy_prefix", table.add_dummy_prefix},
                    {"byte_fallback", table.byte_fallback}};
}

std::string TokenizerText(const base::Json& tokenizer) {
  if (tokenizer.is_null()) return "none";
  return absl::StrFormat("%d pieces, %d bytes", tokenizer["pieces"].get<uint64_t>(),
                         tokenizer["bytes"].get<uint64_t>());
}

absl::StatusOr<ExitCode> InspectArchive(const InspectOptions& options, Session& session) {
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(options.path));
  const auto kinds = verify::SummariseKinds(archive.schema(), archive.records());
  ASSIGN_OR_RETURN(const base::Json tokenizer, TokenizerJson(archive));
  const std::string codebooks = verify::CodebookOrigin(archive.codebooks());
  if (options.json) {
    session.out.WriteJson({{"path", archive.path()},
                           {"type", "archive"},
                           {"generation", format::GenerationName(archive.geometry().generation)},
                           {"bytes", archive.bytes().size()},
                           {"header", HeaderJson(archive.header())},
                           {"codebooks", codebooks},
                           {"kinds", KindsJson(kinds)},
                           {"heads", HeadsJson(archive.schema())},
                           {"tokenizer", tokenizer},
                           {"tensors", LayoutJson(archive.schema(), archive.records())}});
    return ExitCode::kDone;
  }
  session.out.Write(ArchiveLine(archive));
  session.out.Write(absl::StrFormat("heads: %s\ntokenizer: %s\ncodebooks: %s\n\n",
                                    HeadsText(archive.schema()), TokenizerText(tokenizer),
                                    codebooks));
  session.out.Write(KindsText(kinds));
  session.out.Write("\n" + HeaderText(archive.header()));
  if (options.verbose) session.out.Write("\n" + LayoutText(archive.schema(), archive.records()));
  return ExitCode::kDone;
}

base::Json LeavesJson(const converter::Checkpoint& checkpoint) {
  base::Json leaves = base::Json::array();
  for (const converter::Leaf& leaf : checkpoint.leaves()) {
    leaves.push_back({{"name", leaf.name}, {"type", leaf.type_name}, {"shape", leaf.shape}});
  }
  return leaves;
}

std::string LeavesText(const converter::Checkpoint& checkpoint) {
  TextTable table({"leaf", "type", "shape"});
  for (const converter::Leaf& leaf : checkpoint.leaves()) {
    table.AddRow({leaf.name, leaf.type_name, converter::LeafShapeText(leaf.shape)});
  }
  return table.Text();
}

// The header of the archive that the checkpoint leads to. When none can be made of it, a warning
// says why, and the header is what the config alone says.
absl::StatusOr<format::Header> HeaderOf(const std::string& path,
                                        const converter::Checkpoint& checkpoint,
                                        const Messages& messages) {
  const auto plan = PlanCheckpoint(path, {});
  if (plan.ok()) {
    TellWarnings((*plan)->warnings(), messages);
    return (*plan)->layout().header;
  }
  ASSIGN_OR_RETURN(const auto config, converter::ModelConfig::FromJson(checkpoint.config()));
  messages.Warning("no archive can be made of it: " + std::string(plan.status().message()));
  return format::Header{.geometry = config.geometry};
}

absl::StatusOr<ExitCode> InspectCheckpoint(const InspectOptions& options, Session& session) {
  ASSIGN_OR_RETURN(const auto checkpoint, converter::Checkpoint::Open(options.path));
  ASSIGN_OR_RETURN(const format::Header header,
                   HeaderOf(options.path, *checkpoint, session.messages));
  const auto types = verify::SummariseLeaves(checkpoint->leaves());
  const std::string generation = format::GenerationName(header.geometry.generation);
  if (options.json) {
    session.out.WriteJson({{"path", checkpoint->path()},
                           {"type", "checkpoint"},
                           {"generation", generation},
                           {"files", checkpoint->files()},
                           {"header", HeaderJson(header)},
                           {"kinds", KindsJson(types)},
                           {"config", checkpoint->config()},
                           {"leaves", LeavesJson(*checkpoint)}});
    return ExitCode::kDone;
  }
  session.out.Write(absl::StrFormat("%s: checkpoint of a %s model, %d layers, %d leaves\n\n",
                                    checkpoint->path(), generation, header.geometry.num_layers,
                                    checkpoint->leaves().size()));
  session.out.Write(KindsText(types));
  session.out.Write("\n" + HeaderText(header));
  if (options.verbose) session.out.Write("\n" + LeavesText(*checkpoint));
  return ExitCode::kDone;
}

}  // namespace

void AddInspect(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "inspect",
      .heading = kLookHeading,
      .summary = "what an archive or a checkpoint holds",
      .description =
          "Prints what a file holds: an archive's header, tensors by kind, heads and tokenizer, or "
          "a checkpoint's leaves by type and the header that its config leads to. An archive is "
          "checked against every rule of the format first.",
      .examples = {{"inspect model.cact", "header and totals"},
                   {"inspect -v model.cact", "every tensor as well"},
                   {"inspect --json model.safetensors", "for programs"}},
  });
  auto options = std::make_shared<InspectOptions>();
  command.Add({.names = "file",
               .value = "FILE",
               .help = "a .cact archive, or a checkpoint (.safetensors, .npz, .pkl)",
               .required = true},
              &options->path);
  command.Add({.names = "-v,--verbose", .help = "list every tensor"}, &options->verbose);
  AddJsonOption(command, &options->json);
  command.OnRun([options](Session& session) {
    return IsArchivePath(options->path) ? InspectArchive(*options, session)
                                        : InspectCheckpoint(*options, session);
  });
}

}  // namespace needle::cli
