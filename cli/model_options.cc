#include "cli/model_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "converter/checkpoint.h"
#include "converter/verify/plan_weights.h"
#include "engine/archive_weights.h"
#include "quant/bit_map.h"

namespace needle::cli {

void AddCheckpointOptions(Command& command, CheckpointOptions* options) {
  command.Add({.names = "--layers",
               .value = "N",
               .help = "of a checkpoint: the N blocks of that depth of the ladder",
               .min = 1,
               .max = format::kMaxLayers},
              &options->layers);
  command.Add({.names = "--tokenizer",
               .value = "FILE",
               .help = "of a checkpoint: a SentencePiece .model or a .cact (default: "
                       "tokenizer.model beside it)"},
              &options->tokenizer);
  command.Add({.names = "--lora", .value = "FILE", .help = "of a checkpoint: merge an adapter"},
              &options->adapters);
  command.Add({.names = "--keep-confidence", .help = "with --lora: keep the confidence head"},
              &options->keep_confidence);
  command.Need("--keep-confidence", "--lora");
  command.Add({.names = "--rebalance",
               .help = "of a checkpoint: its tensors as build --rebalance makes them"},
              &options->rebalance);
}

absl::StatusOr<std::shared_ptr<const converter::TensorPlan>> PlanCheckpoint(
    const std::string& path, const CheckpointOptions& options) {
  converter::PlanOptions plan;
  // Widths are not read at full precision, but a plan has some.
  plan.bit_map = quant::BitMap::Uniform(format::Width::kCq2);
  plan.layers = static_cast<uint32_t>(options.layers.value_or(0));
  plan.tokenizer = options.tokenizer;
  plan.adapters = options.adapters;
  plan.keep_confidence = options.keep_confidence;
  plan.rebalance = options.rebalance;
  ASSIGN_OR_RETURN(auto checkpoint, converter::Checkpoint::Open(path));
  ASSIGN_OR_RETURN(converter::TensorPlan made,
                   converter::TensorPlan::Make(std::move(checkpoint), plan));
  return std::make_shared<const converter::TensorPlan>(std::move(made));
}

void AddModelOptions(Command& command, ModelOptions* options) {
  command.Add({.names = "model",
               .value = "FILE",
               .help = "an archive, or a checkpoint at full precision",
               .required = true},
              &options->path);
  command.Add(
      {.names = "--numerics",
       .value = "float|a8|kernel",
       .help = "how to compute: all in f32, with quantised activations, or as a device does "
               "(default: kernel for an archive, float for a checkpoint)"},
      &options->numerics);
  AddCheckpointOptions(command, &options->checkpoint);
  AddThreadsOption(command, &options->threads);
}

absl::StatusOr<std::shared_ptr<const engine::WeightSource>> OpenWeights(
    const std::string& path, const CheckpointOptions& options) {
  if (!IsArchivePath(path)) {
    ASSIGN_OR_RETURN(auto plan, PlanCheckpoint(path, options));
    return std::make_shared<const verify::PlanWeights>(std::move(plan));
  }
  if (options.layers || options.tokenizer || !options.adapters.empty() || options.rebalance) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": --layers, --tokenizer, --lora and --rebalance are for checkpoints; "
                     "this is an archive"));
  }
  return engine::ArchiveWeights::Open(path);
}

engine::Numerics NumericsOf(const std::string& path, const std::optional<std::string>& numerics) {
  const auto fallback = IsArchivePath(path) ? engine::Numerics::kKernel : engine::Numerics::kFloat;
  return numerics ? engine::NumericsFromName(*numerics).value_or(fallback) : fallback;
}

absl::StatusOr<engine::Model> LoadModel(const ModelOptions& options, uint64_t threads) {
  ASSIGN_OR_RETURN(auto source, OpenWeights(options.path, options.checkpoint));
  return engine::Model::Load(
      std::move(source),
      {.numerics = NumericsOf(options.path, options.numerics), .threads = threads});
}

}  // namespace needle::cli
