// format/slice.h: a shallower archive out of an archive, without floats. Specification:
// "Subnetworks: --layers N".
#ifndef NEEDLE_FORMAT_SLICE_H_
#define NEEDLE_FORMAT_SLICE_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "format/archive.h"
#include "format/layer_selection.h"

namespace needle::format {

// Writes depth `depth` of `archive` to `target`; byte-identical with a build at that depth from the
// same checkpoint with the same bit map. `ladder_order`: empty, or the order that an already sliced
// model's config carried (an archive carries none, so the order of a sliced archive is LadderOrder
// of its depth). Groups, codebooks and heads' dtypes stay as they are in `archive`. The result is
// opened again before success is reported. Returns what was kept, its geometry as it was written.
// Errors as of LayerSelection::Make, AtomicFile::CheckTarget (`target` may not be the archive's own
// file) and ArchiveWriter.
absl::StatusOr<LayerSelection> SliceArchive(const Archive& archive, uint32_t depth,
                                            std::span<const uint32_t> ladder_order,
                                            const std::string& target);

// Writes what `selection` keeps of `archive`, with the selection's geometry as it stands, kv_window
// included. For callers that know more than the archive tells. Errors as of ArchiveWriter.
absl::Status WriteSlice(const Archive& archive, const LayerSelection& selection,
                        const std::string& target);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_SLICE_H_
