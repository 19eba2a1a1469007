// cli/model_options.h: options of commands that run a model, which may be an archive or a
// checkpoint.
#ifndef NEEDLE_CLI_MODEL_OPTIONS_H_
#define NEEDLE_CLI_MODEL_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/command_line.h"
#include "converter/tensor_plan.h"
#include "engine/model.h"
#include "engine/tokenizer.h"
#include "engine/weight_source.h"

namespace needle::cli {

// How a checkpoint is seen: as the options of `build` would make it.
struct CheckpointOptions {
  std::optional<uint64_t> layers;
  std::optional<std::string> tokenizer;
  std::vector<std::string> adapters;
  bool keep_confidence = false;
  bool rebalance = false;
};
void AddCheckpointOptions(Command& command, CheckpointOptions* options);
absl::StatusOr<std::shared_ptr<const converter::TensorPlan>> PlanCheckpoint(
    const std::string& path, const CheckpointOptions& options);

struct ModelOptions {
  std::string path;
  std::optional<std::string> numerics;  // default: kernel for an archive, float for a checkpoint
  CheckpointOptions checkpoint = {};
  uint64_t threads = 0;
};
// The positional argument and all options.
void AddModelOptions(Command& command, ModelOptions* options);

// The weights of an archive, or of a checkpoint at full precision. InvalidArgument: options for
// checkpoints with an archive.
absl::StatusOr<std::shared_ptr<const engine::WeightSource>> OpenWeights(
    const std::string& path, const CheckpointOptions& options);
// As said, or the default for the file.
engine::Numerics NumericsOf(const std::string& path, const std::optional<std::string>& numerics);
// A model with `threads` threads a session.
absl::StatusOr<engine::Model> LoadModel(const ModelOptions& options, uint64_t threads);

}  // namespace needle::cli

#endif  // NEEDLE_CLI_MODEL_OPTIONS_H_
