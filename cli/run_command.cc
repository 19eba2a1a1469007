#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/input_text.h"
#include "cli/model_options.h"
#include "converter/verify/tensor_file_writer.h"
#include "engine/generate.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "engine/tokenizer.h"
#include "engine/tool_calls.h"

namespace needle::cli {
namespace {

constexpr char kTurnEnd[] = "<|im_end|>";

struct RunOptions {
  ModelOptions model;
  std::optional<std::string> query, tools, system, token_ids, logits;
  uint64_t max_new_tokens = 256, seed = 0;
  double temperature = 0;
  bool stream = false, json = false;
};

absl::StatusOr<std::vector<uint32_t>> ParseIds(const std::string& text) {
  std::vector<uint32_t> ids;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    if (!absl::SimpleAtoi(part, &ids.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--token-ids: '", part, "', want token ids separated by commas"));
    }
  }
  return ids;
}

absl::StatusOr<std::vector<uint32_t>> Prompt(const RunOptions& options,
                                             const std::optional<engine::Tokenizer>& tokenizer) {
  if (options.token_ids) return ParseIds(*options.token_ids);
  if (!options.query) return absl::InvalidArgumentError("a query is missing (or --token-ids)");
  if (!tokenizer) {
    return absl::NotFoundError(
        absl::StrCat(options.model.path, ": has no tokenizer; give --token-ids"));
  }
  engine::PromptRequest request;
  request.system = options.system.value_or("");
  request.query = *options.query;
  if (request.query == "-") {
    ASSIGN_OR_RETURN(request.query, ReadInput("-"));
  }
  if (options.tools) {
    ASSIGN_OR_RETURN(const std::string tools, ReadInput(*options.tools));
    ASSIGN_OR_RETURN(request.tools, engine::CompactTools(std::string_view(tools)));
  }
  return engine::EncodePrompt(*tokenizer, request);
}

// The logits of every position of the prompt, for those who write runtimes.
absl::StatusOr<ExitCode> WriteLogits(const RunOptions& options, const engine::Model& model,
                                     const std::vector<uint32_t>& prompt, Session& session) {
  engine::Session run(model);
  ASSIGN_OR_RETURN(const std::span<const float> logits,
                   run.Prefill(prompt, engine::Session::Logits::kAll));
  const uint64_t rows = model.geometry().LogitRows();
  ASSIGN_OR_RETURN(
      const auto writer,
      verify::TensorFileWriter::Create(
          *options.logits, {{"tokens", verify::ArrayType::kU32, {prompt.size()}},
                            {"logits", verify::ArrayType::kF32, {prompt.size(), rows}}}));
  RETURN_IF_ERROR(writer->Write(verify::BytesOf(std::span<const uint32_t>(prompt))));
  RETURN_IF_ERROR(writer->Write(verify::BytesOf(logits)));
  RETURN_IF_ERROR(writer->Finish());
  const std::string numerics(engine::NumericsName(model.numerics()));
  if (options.json) {
    session.out.WriteJson({{"model", options.model.path},
                           {"numerics", numerics},
                           {"output", *options.logits},
                           {"positions", prompt.size()},
                           {"logits", rows}});
  } else {
    session.messages.Info(absl::StrCat(*options.logits, ": logits of ", prompt.size(),
                                       " positions, ", numerics, " numerics"));
  }
  return ExitCode::kDone;
}

std::string IdsText(const std::vector<uint32_t>& ids) { return absl::StrJoin(ids, ","); }

base::Json AnswerJson(const RunOptions& options, const engine::Model& model, double load_seconds,
                      size_t prompt_tokens, const engine::Completion& completion,
                      const std::string& text) {
  const engine::Answer answer = engine::ParseAnswer(text);
  return {{"model", options.model.path},
          {"numerics", std::string(engine::NumericsName(model.numerics()))},
          {"text", text},
          {"think", answer.think},
          {"parsed", answer.parsed},
          {"calls", answer.calls},
          {"error", answer.error},
          {"stop", std::string(engine::StopReasonName(completion.stop))},
          {"prompt_tokens", prompt_tokens},
          {"tokens", completion.tokens},
          {"seconds",
           {{"load", load_seconds},
            {"prompt", completion.prompt_seconds},
            {"answer", completion.answer_seconds}}}};
}

// `text` as it is shown: without the marker that ends each answer.
std::string Shown(std::string text) {
  if (text.ends_with(kTurnEnd)) text.resize(text.size() - std::string_view(kTurnEnd).size());
  return text;
}

absl::StatusOr<ExitCode> RunRun(const RunOptions& options, Session& session) {
  if (options.logits) {
    const std::vector<std::string> inputs = {options.model.path};
    RETURN_IF_ERROR(base::AtomicFile::CheckTarget(*options.logits, inputs));
  }
  const base::Stopwatch watch;
  ASSIGN_OR_RETURN(const engine::Model model, LoadModel(options.model, options.model.threads));
  std::optional<engine::Tokenizer> tokenizer;
  if (model.source().Tokenizer()) {
    ASSIGN_OR_RETURN(tokenizer, engine::Tokenizer::FromSource(model.source()));
  }
  const double load_seconds = watch.Seconds();
  ASSIGN_OR_RETURN(const std::vector<uint32_t> prompt, Prompt(options, tokenizer));
  if (options.logits) return WriteLogits(options, model, prompt, session);

  engine::GenerateOptions generate;
  generate.max_new_tokens = options.max_new_tokens;
  generate.temperature = static_cast<float>(options.temperature);
  generate.seed = options.seed;
  if (tokenizer) generate.eos_id = tokenizer->table().eos_id;
  std::optional<engine::StreamDecoder> decoder;
  if (tokenizer && options.stream) {
    decoder.emplace(*tokenizer);
    generate.on_token = [&](uint32_t token) {
      session.out.Write(decoder->Push(token));
      return session.out.Flush().ok();
    };
  }
  engine::Session run(model);
  ASSIGN_OR_RETURN(const engine::Completion completion, engine::Generate(run, prompt, generate));
  const std::string text = tokenizer ? tokenizer->Decode(completion.tokens) : "";
  if (options.json) {
    session.out.WriteJson(
        AnswerJson(options, model, load_seconds, prompt.size(), completion, text));
  } else if (decoder) {
    session.out.Write(decoder->Finish() + "\n");
  } else {
    session.out.Write((tokenizer ? Shown(text) : IdsText(completion.tokens)) + "\n");
  }
  return ExitCode::kDone;
}

void AddRunOptions(Command& command, RunOptions* options) {
  AddModelOptions(command, &options->model);
  command.Add({.names = "query", .value = "TEXT", .help = "what to ask; - reads standard input"},
              &options->query);
  command.Add({.names = "--tools",
               .value = "FILE",
               .help = "the tools as a JSON array, also OpenAI-style; - reads standard input"},
              &options->tools);
  command.Add({.names = "--system", .value = "TEXT", .help = "a system text"}, &options->system);
  command.Add({.names = "--token-ids",
               .value = "IDS",
               .help = "the whole prompt as token ids, separated by commas, instead of a query"},
              &options->token_ids);
  command.Add({.names = "--logits",
               .value = "FILE",
               .help = "write tokens and the logits after each of them to a .npz or .safetensors "
                       "file instead of answering",
               .use = FileUse::kWrites},
              &options->logits);
  command.Add({.names = "--max-new-tokens",
               .value = "N",
               .help = "length limit of the answer (default 256)",
               .min = 1},
              &options->max_new_tokens);
  command.Add({.names = "--temperature",
               .value = "T",
               .help = "0 always takes the likeliest token, above 0 draws (default 0)"},
              &options->temperature);
  command.Add({.names = "--seed", .value = "N", .help = "of the draws (default 0)"},
              &options->seed);
  command.Add({.names = "--stream", .help = "print the answer as it grows"}, &options->stream);
  AddJsonOption(command, &options->json);
  command.Exclude("query", "--token-ids");
  command.Exclude("--tools", "--token-ids");
  command.Exclude("--system", "--token-ids");
  command.Exclude("--stream", "--json");
  command.Exclude("--stream", "--logits");
}

}  // namespace

void AddRun(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "run",
      .heading = kProveHeading,
      .summary = "answer a query with a model",
      .description =
          "Runs a model with the bundled reference engine and prints its answer. An archive "
          "computes as a device does unless --numerics says otherwise.",
      .examples = {{"run model.cact --tools tools.json \"turn on the attic light\"",
                    "which tool the model calls"},
                   {"run model.cact --token-ids 2,17,93 --logits out.npz", "for runtime authors"}},
  });
  auto options = std::make_shared<RunOptions>();
  AddRunOptions(command, options.get());
  command.OnRun([options](Session& session) { return RunRun(*options, session); });
}

}  // namespace needle::cli
