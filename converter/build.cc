#include "converter/build.h"

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/stopwatch.h"
#include "converter/archive_job.h"
#include "format/archive.h"

namespace needle::converter {

absl::StatusOr<BuildReport> Build(const TensorPlan& plan, const std::string& target,
                                  const BuildOptions& options) {
  const base::Stopwatch watch;
  RETURN_IF_ERROR(base::AtomicFile::CheckTarget(target, plan.files()));
  const ArchiveJob job{.input = plan.checkpoint().path(),
                       .layout = &plan.layout(),
                       .codebooks = quant::StoredCodebooks(options.codebook),
                       .source = &plan,
                       .tokenizer = plan.tokenizer(),
                       .encoder = options.encoder ? options.encoder : &RoundToNearest(),
                       .copies = {},
                       .threads = options.threads,
                       .progress = options.progress};
  BuildReport report;
  ASSIGN_OR_RETURN(report.tensors, WriteArchive(job, target));
  RETURN_IF_ERROR(format::Archive::Open(target).status());
  report.path = target;
  report.file_bytes = plan.layout().file_bytes;
  report.warnings = plan.warnings();
  for (std::string& warning : ValueWarnings(report.tensors)) {
    report.warnings.push_back(std::move(warning));
  }
  report.seconds = watch.Seconds();
  return report;
}

}  // namespace needle::converter
