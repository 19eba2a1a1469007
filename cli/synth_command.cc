#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/text_table.h"
#include "converter/synth.h"

namespace needle::cli {
namespace {

struct SynthOptions {
  std::string output, geometry = "needle3";
  std::vector<std::string> settings;
  uint64_t seed = 1, threads = 0;
  bool json = false, quiet = false;
};

// "key=value", the value as JSON: one key of a shipped config with another value.
absl::Status ChangeConfig(const std::string& setting, base::Json& config) {
  const size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  if (equals == std::string::npos || !config.contains(key)) {
    std::vector<std::string> keys;
    for (const auto& entry : config.items()) keys.push_back(entry.key());
    return absl::InvalidArgumentError(absl::StrFormat("--set \"%s\": want KEY=VALUE with one of %s",
                                                      setting, absl::StrJoin(keys, ", ")));
  }
  const auto value = base::ParseJson(setting.substr(equals + 1));
  if (!value.ok()) {
    return absl::InvalidArgumentError(absl::StrFormat("--set \"%s\": the value is no JSON: %s",
                                                      setting, value.status().message()));
  }
  config[key] = *value;
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunSynth(const SynthOptions& options, Session& session) {
  const auto generation =
      options.geometry == "needle2" ? format::Generation::kNeedle2 : format::Generation::kNeedle3;
  converter::SynthOptions synth{.config = converter::ShippedConfig(generation),
                                .seed = options.seed,
                                .threads = options.threads};
  for (const std::string& setting : options.settings) {
    RETURN_IF_ERROR(ChangeConfig(setting, synth.config));
  }
  ASSIGN_OR_RETURN(const converter::SynthReport report,
                   converter::WriteSyntheticCheckpoint(synth, options.output));
  if (options.json) {
    session.out.WriteJson({{"output", options.output},
                           {"geometry", options.geometry},
                           {"config", synth.config},
                           {"seed", options.seed},
                           {"leaves", report.num_leaves},
                           {"values", report.num_values},
                           {"bytes", report.file_bytes}});
  } else if (!options.quiet) {
    session.out.Write(absl::StrFormat("%s: %d leaves, %d values, %d bytes (%s)\n", options.output,
                                      report.num_leaves, report.num_values, report.file_bytes,
                                      BytesText(report.file_bytes)));
  }
  return ExitCode::kDone;
}

}  // namespace

void AddSynth(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "synth",
      .heading = kMakeHeading,
      .summary = "a random checkpoint of full size",
      .description = "Writes a random float32 checkpoint with the geometry of a shipped model, for "
                     "benchmarks and demonstrations. The same seed gives the same bytes.",
      .examples = {{"synth --geometry needle3 --seed 1 -o big.safetensors", "484 MB"},
                   {"synth --set num_layers=40 --set global_layers=[19,39] -o deep.safetensors",
                    "another depth"}},
  });
  auto options = std::make_shared<SynthOptions>();
  command.Add({.names = "--geometry",
               .value = "needle2|needle3",
               .help = "of which shipped model (default needle3)"},
              &options->geometry);
  command.Add({.names = "--set",
               .value = "KEY=VALUE",
               .help = "another value of a config key, e.g. num_layers=40 (repeatable)"},
              &options->settings);
  command.Add({.names = "--seed", .value = "N", .help = "of the random numbers (default 1)"},
              &options->seed);
  command.Add({.names = "-o,--output",
               .value = "FILE",
               .help = "the .safetensors file to write",
               .use = FileUse::kWrites,
               .required = true},
              &options->output);
  AddThreadsOption(command, &options->threads);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
  command.OnRun([options](Session& session) { return RunSynth(*options, session); });
}

}  // namespace needle::cli
