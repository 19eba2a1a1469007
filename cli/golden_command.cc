#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "converter/verify/golden_file.h"
#include "format/archive.h"

namespace needle::cli {
namespace {

struct GoldenOptions {
  std::string archive, output;
  bool json = false, quiet = false;
};

absl::StatusOr<ExitCode> RunGolden(const GoldenOptions& options, Session& session) {
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(options.archive));
  ASSIGN_OR_RETURN(const verify::GoldenReport report, verify::WriteGolden(archive, options.output));
  if (options.json) {
    session.out.WriteJson({{"archive", archive.path()},
                           {"output", options.output},
                           {"tensors", report.num_tensors},
                           {"values", report.num_values}});
  } else if (!options.quiet) {
    session.out.Write(absl::StrFormat("%s: %d tensors, %d values\n", options.output,
                                      report.num_tensors, report.num_values));
  }
  return ExitCode::kDone;
}

}  // namespace

void AddGolden(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "golden",
      .heading = kProveHeading,
      .summary = "write an archive's tensors decoded, for runtime authors",
      .description =
          "Decodes every tensor but the tokenizer to f32 and writes them under their canonical "
          "names, so that a runtime's reader can be checked; verify --golden reads the file back.",
      .examples = {{"golden model.cact -o golden.npz", "for NumPy"},
                   {"verify model.cact --golden golden.npz", "check an archive against it"}},
  });
  auto options = std::make_shared<GoldenOptions>();
  command.Add({.names = "archive", .value = "FILE", .help = "an archive", .required = true},
              &options->archive);
  command.Add({.names = "-o,--output",
               .value = "FILE",
               .help = "a .npz or .safetensors file",
               .use = FileUse::kWrites,
               .required = true},
              &options->output);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
  command.OnRun([options](Session& session) { return RunGolden(*options, session); });
}

}  // namespace needle::cli
