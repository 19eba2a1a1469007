#include <memory>
#include <optional>
#include <string>

#include "base/status_macros.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "converter/verify/tensor_dump.h"
#include "converter/verify/tensor_file_writer.h"
#include "format/archive.h"

namespace needle::cli {
namespace {

struct DumpOptions {
  std::string archive, tensor;
  std::optional<std::string> output;
  bool indices = false, norms = false, csv = false, json = false;
};

absl::StatusOr<ExitCode> RunDump(const DumpOptions& options, Session& session) {
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(options.archive));
  const verify::DumpPart part = options.indices ? verify::DumpPart::kIndices
                                : options.norms ? verify::DumpPart::kNorms
                                                : verify::DumpPart::kValues;
  ASSIGN_OR_RETURN(const verify::DumpedArray array,
                   verify::DumpTensor(archive, options.tensor, part));
  if (options.output && *options.output != "-") {
    RETURN_IF_ERROR(verify::WriteDump(array, *options.output, archive.path()));
  } else if (!options.json) {
    verify::WriteCsv(array, [&](std::string_view line) { session.out.Write(line); });
  }
  if (options.json) {
    session.out.WriteJson(
        {{"tensor", array.spec.name},
         {"type", verify::ArrayTypeName(array.spec.type)},
         {"shape", array.spec.shape},
         {"output", options.output ? base::Json(*options.output) : base::Json()}});
  }
  return ExitCode::kDone;
}

}  // namespace

void AddDump(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "dump",
      .heading = kLookHeading,
      .summary = "one tensor of an archive, as CSV or .npy",
      .description =
          "Writes one tensor: its decoded values, or with --indices its codebook positions (a row "
          "with its padding a line; ternary 0, 1, 2 for -1, 0, +1), or with --norms its norms. CSV "
          "to standard output unless -o names a file.",
      .examples = {{"dump model.cact layer03.q_proj -o q.npy", "for NumPy"},
                   {"dump model.cact layer03.q_proj --norms", "norms as CSV"}},
  });
  auto options = std::make_shared<DumpOptions>();
  command.Add({.names = "archive", .value = "FILE", .help = "an archive", .required = true},
              &options->archive);
  command.Add({.names = "tensor",
               .value = "NAME",
               .help = "its canonical name, as inspect -v lists it",
               .required = true},
              &options->tensor);
  command.Add({.names = "--indices", .help = "codebook positions instead of values"},
              &options->indices);
  command.Add({.names = "--norms", .help = "norms instead of values"}, &options->norms);
  command.Add({.names = "--csv", .help = "CSV to standard output (the default without -o)"},
              &options->csv);
  command.Add({.names = "-o,--output",
               .value = "FILE",
               .help = "write a .npy, .npz, .safetensors or .csv file; - is standard output",
               .use = FileUse::kWrites},
              &options->output);
  AddJsonOption(command, &options->json);
  command.Exclude("--indices", "--norms");
  command.Exclude("--csv", "--output");
  command.Exclude("--csv", "--json");
  command.OnRun([options](Session& session) { return RunDump(*options, session); });
}

}  // namespace needle::cli
