#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "converter/manifest.h"

namespace needle::cli {
namespace {

struct ManifestOptions {
  std::vector<std::string> archives, inputs;
  std::optional<std::string> output;
  bool json = false;
};

absl::StatusOr<ExitCode> RunManifest(const ManifestOptions& options, Session& session) {
  converter::ManifestRequest request;
  request.tool_version = Version();
  request.options = base::Json::object();
  request.inputs = options.inputs;
  for (const std::string& archive : options.archives) request.archives.push_back({archive, {}});
  if (options.output && *options.output != "-") {
    std::vector<std::string> files = options.archives;
    files.insert(files.end(), options.inputs.begin(), options.inputs.end());
    RETURN_IF_ERROR(base::AtomicFile::CheckTarget(*options.output, files));
    RETURN_IF_ERROR(converter::CheckBeside(*options.output, options.archives));
    ASSIGN_OR_RETURN(const base::Json manifest, converter::MakeManifest(request));
    RETURN_IF_ERROR(converter::WriteManifest(manifest, *options.output));
    return ExitCode::kDone;
  }
  ASSIGN_OR_RETURN(const base::Json manifest, converter::MakeManifest(request));
  session.out.WriteJson(manifest);
  return ExitCode::kDone;
}

}  // namespace

void AddManifest(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "manifest",
      .heading = kLookHeading,
      .summary = "checksums of archives and all their tensors",
      .description =
          "Writes a JSON manifest: the tool's version, inputs and archives with their SHA-256, and "
          "for each tensor its name, shape, width, bytes and SHA-256. No time stamps unless "
          "SOURCE_DATE_EPOCH is set. verify --manifest checks the files against it.",
      .examples = {{"manifest model.cact", "to standard output"},
                   {"manifest model.cact --input model.safetensors -o manifest.json",
                    "with the checkpoint it came from"}},
  });
  auto options = std::make_shared<ManifestOptions>();
  command.Add({.names = "archive", .value = "FILE", .help = "archives", .required = true},
              &options->archives);
  command.Add({.names = "--input", .value = "FILE", .help = "a file that they were made of"},
              &options->inputs);
  command.Add({.names = "-o,--output",
               .value = "FILE",
               .help = "the file to write, beside the archives (default -, standard output)",
               .use = FileUse::kWrites},
              &options->output);
  command.Add({.names = "--json", .help = "taken for uniformity: a manifest is JSON"},
              &options->json);
  command.OnRun([options](Session& session) { return RunManifest(*options, session); });
}

}  // namespace needle::cli
