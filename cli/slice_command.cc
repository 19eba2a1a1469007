#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/report_text.h"
#include "format/archive.h"
#include "format/slice.h"

namespace needle::cli {
namespace {

struct SliceOptions {
  std::string archive, output;
  uint64_t layers = 0;
  bool json = false, quiet = false;
};

absl::StatusOr<ExitCode> RunSlice(const SliceOptions& options, Session& session) {
  ASSIGN_OR_RETURN(const format::Archive archive, format::Archive::Open(options.archive));
  ASSIGN_OR_RETURN(
      const format::LayerSelection selection,
      format::SliceArchive(archive, static_cast<uint32_t>(options.layers), {}, options.output));
  ASSIGN_OR_RETURN(const format::Archive sliced, format::Archive::Open(options.output));
  const auto kinds = verify::SummariseKinds(sliced.schema(), sliced.records());
  if (options.json) {
    session.out.WriteJson({{"archive", archive.path()},
                           {"output", sliced.path()},
                           {"layers", selection.layers},
                           {"sites", selection.sites},
                           {"bytes", sliced.bytes().size()},
                           {"header", HeaderJson(sliced.header())},
                           {"kinds", KindsJson(kinds)}});
  } else if (!options.quiet) {
    session.out.Write(ArchiveLine(sliced));
    session.out.Write(absl::StrFormat("layers kept: %s\n\n", absl::StrJoin(selection.layers, " ")));
    session.out.Write(KindsText(kinds));
  }
  return ExitCode::kDone;
}

}  // namespace

void AddSlice(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "slice",
      .heading = kMakeHeading,
      .summary = "a shallower archive out of an archive",
      .description =
          "Keeps the blocks of a depth, moving bytes and no floats. The result is byte-identical "
          "with a build at that depth from the same checkpoint with the same widths.",
      .examples = {{"slice model.cact --layers 8 -o small.cact", "eight blocks"}},
  });
  auto options = std::make_shared<SliceOptions>();
  command.Add({.names = "archive", .value = "FILE", .help = "an archive", .required = true},
              &options->archive);
  command.Add({.names = "--layers",
               .value = "N",
               .help = "the depth, from 2 to the archive's own",
               .required = true,
               .min = 1,
               .max = format::kMaxLayers},
              &options->layers);
  AddOutputOption(command, &options->output);
  AddJsonOption(command, &options->json);
  AddQuietOption(command, &options->quiet);
  command.OnRun([options](Session& session) { return RunSlice(*options, session); });
}

}  // namespace needle::cli
