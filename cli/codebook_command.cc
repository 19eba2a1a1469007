#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/commands.h"
#include "cli/text_table.h"
#include "quant/codebook.h"

namespace needle::cli {
namespace {

struct CodebookOptions {
  std::string kind = "reference";
  bool json = false;
};

constexpr char kReferenceOrigin[] =
    "Lloyd-Max by a Monte-Carlo run: the numbers that archives in the field carry";
constexpr char kAnalyticOrigin[] = "the exact Lloyd-Max quantiser of the Gaussian";
constexpr char kNotStored[] = "analytic; not stored in files";

bool IsStored(format::Width width) {
  return width != format::Width::kBinary && width != format::Width::kTernary;
}

absl::StatusOr<ExitCode> RunCodebook(const CodebookOptions& options, Session& session) {
  const bool analytic = options.kind == "analytic";
  const auto kind = analytic ? quant::CodebookKind::kAnalytic : quant::CodebookKind::kReference;
  base::Json codebooks = base::Json::array();
  TextTable table({"width", ">bits", ">levels", ">theory", "entries at group 128"});
  for (const format::Width width : format::kAllWidths) {
    const quant::Codebook codebook = quant::Codebook::Standard(width, kind);
    std::string entries;
    for (const float entry : codebook.entries()) {
      absl::StrAppendFormat(&entries, "%s%.7f", entries.empty() ? "" : " ",
                            static_cast<double>(entry));
    }
    const std::string name(format::WidthName(width)), text(format::WidthText(width));
    table.AddRow({name, text, absl::StrCat(format::NumLevels(width)),
                  ErrorText(quant::TheoreticalDistortion(width)), entries});
    codebooks.push_back({{"width", name},
                         {"bits", text},
                         {"origin", !IsStored(width) ? kNotStored
                                    : analytic       ? kAnalyticOrigin
                                                     : kReferenceOrigin},
                         {"group", codebook.group()},
                         {"theory", quant::TheoreticalDistortion(width)},
                         {"entries", codebook.entries()}});
  }
  if (options.json) {
    session.out.WriteJson({{"codebook", options.kind}, {"codebooks", codebooks}});
    return ExitCode::kDone;
  }
  session.out.Write(table.Text());
  session.out.Write(absl::StrFormat("\nCQ2, CQ3, CQ4: %s.\nbinary, ternary: %s.\n",
                                    analytic ? kAnalyticOrigin : kReferenceOrigin, kNotStored));
  session.out.Write(
      "theory: mean squared error over mean square of Gaussian weights with the exact codebook.\n");
  return ExitCode::kDone;
}

}  // namespace

void AddCodebook(CommandSet& commands) {
  Command& command = commands.Add({
      .name = "codebook",
      .heading = kLookHeading,
      .summary = "the codebooks and what they cost",
      .description =
          "Prints the codebook of each width: its entries, where they come from, and the "
          "distortion that theory expects of it.",
      .examples = {{"codebook", "those of archives in the field"},
                   {"codebook --codebook analytic", "the exact alternative"}},
  });
  auto options = std::make_shared<CodebookOptions>();
  command.Add({.names = "--codebook",
               .value = "reference|analytic",
               .help = "which set (default reference)"},
              &options->kind);
  AddJsonOption(command, &options->json);
  command.OnRun([options](Session& session) { return RunCodebook(*options, session); });
}

}  // namespace needle::cli
