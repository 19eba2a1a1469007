#include "format/slice.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "format/archive_writer.h"
#include "format/kv_window.h"

namespace needle::format {
namespace {

// Which entries stay of an axis that goes over the layers.
struct Axis {
  uint64_t outer = 1;  // how many times the axis is run through
  uint64_t length = 0;
  std::span<const uint32_t> kept;
};

class Slicer {
 public:
  Slicer(const Archive& source, const LayerSelection& selection)
      : source_(source), selection_(selection), head_rows_({0}) {
    for (const uint32_t layer : selection.layers) head_rows_.push_back(layer + 1);
  }

  absl::StatusOr<ArchiveLayout> Layout() const {
    const Header header = {selection_.geometry, 0, source_.header().codebook_len};
    ASSIGN_OR_RETURN(const Schema schema, Schema::Make(header.geometry, source_.schema().heads(),
                                                       source_.schema().has_tokenizer()));
    std::vector<CqFormat> formats;
    formats.reserve(schema.tensors().size());
    for (const TensorSpec& spec : schema.tensors()) {
      const Record& record = source_.records()[SourceOf(spec.id)];
      formats.push_back({WidthFromRecordBits(record.bits).value_or(Width::kCq2), record.group});
    }
    const auto tokenizer = source_.Tokenizer();
    return ArchiveLayout::Make(header, schema, formats, tokenizer ? tokenizer->size() : 0);
  }

  absl::Status CopyBlobs(ArchiveWriter& writer) const {
    const auto& tensors = writer.layout().schema.tensors();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const size_t from = SourceOf(tensors[i].id);
      const auto axis = LayerAxis(tensors[i].id);
      RETURN_IF_ERROR(axis ? writer.WriteBlob(i, Gather(from, *axis))
                           : writer.WriteBlob(i, source_.Blob(from)));
    }
    return absl::OkStatus();
  }

 private:
  // The position in the source of a tensor of the slice, which has one there by construction.
  size_t SourceOf(TensorId id) const {
    if (IsLayerRole(id.role)) id.index = selection_.layers[id.index];
    if (IsEngramRole(id.role)) id.index = selection_.sites[id.index];
    return *source_.schema().Find(id);
  }

  // The axis over layers of a tensor that has one: mhc tensors begin with it, Needle 3 heads have
  // the embedding's row before the layers'.
  std::optional<Axis> LayerAxis(TensorId id) const {
    if (id.role >= TensorRole::kMhcAPre && id.role <= TensorRole::kMhcPhiRes) {
      return Axis{1, source_.geometry().num_layers, selection_.layers};
    }
    if (source_.geometry().generation == Generation::kNeedle2) return std::nullopt;
    const uint64_t rows = uint64_t{source_.geometry().num_layers} + 1;
    switch (id.role) {
      case TensorRole::kHeadProbes:
      case TensorRole::kHeadGain:
        return Axis{1, rows, head_rows_};
      case TensorRole::kHeadRowBias:
        return Axis{source_.schema().heads()[id.index].queries, rows, head_rows_};
      default:
        return std::nullopt;
    }
  }

  std::vector<uint8_t> Gather(size_t from, const Axis& axis) const {
    std::vector<uint8_t> kept;
    if (source_.schema().tensors()[from].dtype != DType::kCq) {
      AppendKept(source_.Blob(from), axis, kept);
      return kept;
    }
    // Rows of a matrix are whole groups, so their indices and their norms move as they are.
    const CqView view = source_.Cq(from);
    AppendKept(view.indices, axis, kept);
    AppendKept(view.norms, axis, kept);
    return kept;
  }

  static void AppendKept(std::span<const uint8_t> bytes, const Axis& axis,
                         std::vector<uint8_t>& kept) {
    const uint64_t entry_bytes = bytes.size() / (axis.outer * axis.length);
    for (uint64_t run = 0; run < axis.outer; ++run) {
      for (const uint32_t index : axis.kept) {
        const auto entry = bytes.subspan((run * axis.length + index) * entry_bytes, entry_bytes);
        kept.insert(kept.end(), entry.begin(), entry.end());
      }
    }
  }

  const Archive& source_;
  const LayerSelection& selection_;
  std::vector<uint32_t> head_rows_;
};

}  // namespace

absl::Status WriteSlice(const Archive& archive, const LayerSelection& selection,
                        const std::string& target) {
  RETURN_IF_ERROR(base::AtomicFile::CheckTarget(target, {{archive.path()}}));
  const Slicer slicer(archive, selection);
  ASSIGN_OR_RETURN(ArchiveLayout layout, slicer.Layout());
  ASSIGN_OR_RETURN(ArchiveWriter writer,
                   ArchiveWriter::Create(target, std::move(layout), archive.codebooks()));
  RETURN_IF_ERROR(slicer.CopyBlobs(writer));
  RETURN_IF_ERROR(writer.Finish());
  return Archive::Open(target).status();
}

absl::StatusOr<LayerSelection> SliceArchive(const Archive& archive, uint32_t depth,
                                            std::span<const uint32_t> ladder_order,
                                            const std::string& target) {
  ASSIGN_OR_RETURN(LayerSelection selection,
                   LayerSelection::Make(archive.geometry(), depth, ladder_order));
  selection.geometry.kv_window = SlicedKvWindow(archive.geometry(), selection.geometry);
  RETURN_IF_ERROR(WriteSlice(archive, selection, target));
  return selection;
}

}  // namespace needle::format
