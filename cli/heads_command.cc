#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/input_text.h"
#include "cli/model_options.h"
#include "engine/heads.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "engine/tokenizer.h"

namespace needle::cli {
namespace {

struct HeadsOptions {
  ModelOptions model;
  std::optional<std::string> text, query, tools, system, answer;
  bool json = false;
};

absl::StatusOr<std::vector<uint32_t>> Tokens(const HeadsOptions& options,
                                             const engine::Tokenizer& tokenizer) {
  engine::PromptRequest request;
  request.system = options.system.value_or("");
  if (options.tools) {
    ASSIGN_OR_RETURN(const std::string tools, ReadInput(*options.tools));
    ASSIGN_OR_RETURN(request.tools, engine::CompactTools(std::string_view(tools)));
  }
  std::string text;
  if (options.text) {
    ASSIGN_OR_RETURN(text, *options.text == "-" ? ReadInput("-") : *options.text);
  } else if (options.query) {
    request.query = *options.query;
    text = engine::RenderPrompt(request) + options.answer.value_or("");
  } else {
    return absl::InvalidArgumentError("--text is missing (or --query)");
  }
  std::vector<uint32_t> tokens = {tokenizer.table().bos_id};
  const std::vector<uint32_t> ids = tokenizer.Encode(text);
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  return tokens;
}

base::Json HeadJson(const engine::HeadOutput& output) {
  base::Json json = {{"head", std::string(format::HeadName(output.kind))},
                     {"values", output.values}};
  if (output.kind == format::HeadKind::kConfidence) json["probability"] = output.probability;
  if (output.kind == format::HeadKind::kRouter) json["calibration"] = output.calibration;
  return json;
}

std::string HeadText(const engine::HeadOutput& output) {
  std::string text = absl::StrCat(std::string(format::HeadName(output.kind)), ":");
  for (const float value : output.values) {
    absl::StrAppendFormat(&text, " %.6g", static_cast<double>(value));
  }
  if (output.kind == format::HeadKind::kConfidence) {
    absl::StrAppendFormat(&text, " (probability %.4f)", static_cast<double>(output.probability));
  }
  return text + "\n";
}

absl::StatusOr<ExitCode> RunHeads(const HeadsOptions& options, Session& session) {
  ASSIGN_OR_RETURN(const engine::Model model, LoadModel(options.model, options.model.threads));
  ASSIGN_OR_RETURN(const engine::ProbeHeads heads, engine::ProbeHeads::Load(model.source()));
  if (heads.shapes().empty()) {
    return absl::NotFoundError(absl::StrCat(options.model.path, ": has no probe heads"));
  }
  ASSIGN_OR_RETURN(const engine::Tokenizer tokenizer,
                   engine::Tokenizer::FromSource(model.source()));
  ASSIGN_OR_RETURN(const std::vector<uint32_t> tokens, Tokens(options, tokenizer));
  engine::Session run(model, {.capture_cells = true});
  RETURN_IF_ERROR(run.Prefill(tokens, engine::Session::Logits::kNone).status());
  ASSIGN_OR_RETURN(const std::vector<engine::HeadOutput> outputs,
                   heads.Run(run.cells(), tokens, tokenizer.table().pad_id));
  if (options.json) {
    base::Json json = {{"model", options.model.path},
                       {"numerics", std::string(engine::NumericsName(model.numerics()))},
                       {"tokens", tokens.size()},
                       {"heads", base::Json::array()}};
    for (const engine::HeadOutput& output : outputs) json["heads"].push_back(HeadJson(output));
    session.out.WriteJson(json);
  } else {
    for (const engine::HeadOutput& output : outputs) session.out.Write(HeadText(output));
  }
  return ExitCode::kDone;
}

}  // namespace

void AddHeads(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "heads",
      .heading = kProveHeading,
      .summary = "what the probe heads say of a text",
      .description =
          "Runs a text and prints the output of each probe head: confidence, router, embedding, "
          "contrastive. The confidence head scores a finished completion: give --query, --tools "
          "and "
          "the model's --answer.",
      .examples = {{"heads model.cact --text \"turn on the attic light\"", "every head"},
                   {"heads model.cact --query Q --tools tools.json --answer A --json",
                    "confidence in an answer"}},
  });
  auto options = std::make_shared<HeadsOptions>();
  AddModelOptions(command, &options->model);
  command.Add(
      {.names = "--text", .value = "TEXT", .help = "a text as it is; - reads standard input"},
      &options->text);
  command.Add({.names = "--query", .value = "TEXT", .help = "a query in the prompt's format"},
              &options->query);
  command.Add({.names = "--tools", .value = "FILE", .help = "its tools as a JSON array"},
              &options->tools);
  command.Add({.names = "--system", .value = "TEXT", .help = "its system text"}, &options->system);
  command.Add({.names = "--answer", .value = "TEXT", .help = "the answer that follows it"},
              &options->answer);
  AddJsonOption(command, &options->json);
  command.Exclude("--text", "--query");
  command.Need("--tools", "--query");
  command.Need("--system", "--query");
  command.Need("--answer", "--query");
  command.OnRun([options](Session& session) { return RunHeads(*options, session); });
}

}  // namespace needle::cli
