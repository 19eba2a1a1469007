#include "converter/archive_job.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "format/archive_writer.h"
#include "quant/codebook.h"

namespace needle::converter {
namespace {

using format::DType;

// Values that a thread reads, encodes and writes at a time: they stay in its second-level cache.
constexpr uint64_t kTileValues = uint64_t{1} << 16;
// Neighbouring rows of a transposed leaf share cache lines.
constexpr uint64_t kTileRowUnit = 16;

// Some rows of a tensor, or all of it.
struct Tile {
  size_t position = 0;
  uint64_t first_row = 0;
  uint64_t num_rows = 0;
};

struct TileResult {
  absl::Status status;
  quant::EncodeStats stats;
  uint64_t vanished_values = 0;
};

// A thread's buffers, reused from tile to tile.
struct Scratch {
  std::vector<float> values;
  std::vector<uint8_t> indices;
  std::vector<uint16_t> norms;
};

template <typename T>
std::span<const uint8_t> BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

class Writer {
 public:
  Writer(const ArchiveJob& job, format::ArchiveWriter& writer)
      : job_(job), specs_(job.layout->schema.tensors()), writer_(writer) {}

  absl::Status MakeCodebooks();
  absl::StatusOr<std::vector<TensorReport>> Run();

 private:
  bool IsCopied(size_t position) const {
    return !job_.copies.empty() && !job_.copies[position].empty();
  }
  format::Width WidthOf(size_t position) const {
    return *format::WidthFromRecordBits(job_.layout->records[position].bits);
  }
  std::vector<Tile> MakeTiles() const;
  absl::Status WriteTile(const Tile& tile, Scratch& scratch, TileResult& result);
  absl::Status WriteCq(const Tile& tile, Scratch& scratch, TileResult& result);
  absl::Status WriteF16(size_t position, Scratch& scratch, TileResult& result);
  absl::Status WriteF32(size_t position, Scratch& scratch);
  absl::Status ReadTile(const Tile& tile, Scratch& scratch) const;
  absl::Status CheckFinite(size_t position, std::span<const float> values) const;
  absl::Status ValueError(size_t position, size_t index, const std::string& what) const;
  bool ReportProgress(const Tile& tile);
  std::vector<TensorReport> MakeReports(const std::vector<Tile>& tiles,
                                        const std::vector<TileResult>& results) const;

  const ArchiveJob& job_;
  const std::vector<format::TensorSpec>& specs_;
  format::ArchiveWriter& writer_;
  std::map<format::Width, quant::Codebook> codebooks_;

  std::mutex progress_mutex_;
  BuildProgress progress_;
  std::vector<uint64_t> rows_left_;
};

absl::Status Writer::MakeCodebooks() {
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].dtype != DType::kCq || codebooks_.contains(WidthOf(i))) continue;
    ASSIGN_OR_RETURN(quant::Codebook codebook,
                     quant::Codebook::Make(WidthOf(i), format::kGroup, job_.codebooks));
    codebooks_.emplace(WidthOf(i), std::move(codebook));
  }
  return absl::OkStatus();
}

std::vector<Tile> Writer::MakeTiles() const {
  std::vector<Tile> tiles;
  for (size_t i = 0; i < specs_.size(); ++i) {
    const uint64_t rows = TensorRows(specs_[i]);
    const bool whole =
        specs_[i].dtype != DType::kCq || IsCopied(i) || job_.encoder->NeedsWholeTensor(i);
    if (whole) {
      tiles.push_back({i, 0, rows});
      continue;
    }
    const uint64_t fitting = kTileValues / TensorCols(specs_[i]);
    const uint64_t step = std::max(kTileRowUnit, fitting - fitting % kTileRowUnit);
    for (uint64_t row = 0; row < rows; row += step) {
      tiles.push_back({i, row, std::min(step, rows - row)});
    }
  }
  return tiles;
}

absl::Status Writer::ValueError(size_t position, size_t index, const std::string& what) const {
  const uint64_t cols = TensorCols(specs_[position]);
  return absl::DataLossError(absl::StrFormat("%s: %s: row %d, column %d: %s", job_.input,
                                             specs_[position].name, index / cols, index % cols,
                                             what));
}

absl::Status Writer::CheckFinite(size_t position, std::span<const float> values) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return ValueError(position, i, absl::StrFormat("%g, want a finite value", values[i]));
  }
  return absl::OkStatus();
}

absl::Status Writer::ReadTile(const Tile& tile, Scratch& scratch) const {
  scratch.values.resize(tile.num_rows * TensorCols(specs_[tile.position]));
  return job_.source->ReadRows(tile.position, tile.first_row, tile.num_rows, scratch.values);
}

absl::Status Writer::WriteCq(const Tile& tile, Scratch& scratch, TileResult& result) {
  RETURN_IF_ERROR(ReadTile(tile, scratch));
  const format::TensorSpec& spec = specs_[tile.position];
  ASSIGN_OR_RETURN(
      const format::CqLayout layout,
      format::CqLayout::Make(spec.shape[0], spec.shape[1], format::kGroup, WidthOf(tile.position)));
  scratch.indices.resize(tile.num_rows * layout.row_bytes);
  scratch.norms.resize(tile.num_rows * layout.groups);
  auto stats = job_.encoder->Encode({.position = tile.position,
                                     .first_row = tile.first_row,
                                     .num_rows = tile.num_rows,
                                     .cols = layout.cols,
                                     .weights = scratch.values,
                                     .codebook = &codebooks_.at(WidthOf(tile.position)),
                                     .indices = scratch.indices,
                                     .norms = scratch.norms});
  if (!stats.ok()) {
    return base::WithContext(stats.status(), absl::StrCat(job_.input, ": ", spec.name));
  }
  result.stats = *stats;
  RETURN_IF_ERROR(
      writer_.WriteBlobPart(tile.position, tile.first_row * layout.row_bytes, scratch.indices));
  const uint64_t norm_row_bytes = layout.groups * sizeof(uint16_t);
  return writer_.WriteBlobPart(tile.position, layout.norms_offset + tile.first_row * norm_row_bytes,
                               BytesOf(scratch.norms));
}

absl::Status Writer::WriteF16(size_t position, Scratch& scratch, TileResult& result) {
  RETURN_IF_ERROR(CheckFinite(position, scratch.values));
  scratch.norms.resize(scratch.values.size());
  for (size_t i = 0; i < scratch.values.size(); ++i) {
    const float value = scratch.values[i];
    const uint16_t half = base::F16FromF32(value);
    if (!base::IsFiniteF16(half)) {
      return ValueError(
          position, i,
          absl::StrFormat("%g does not fit f16, want at most %g", value, base::kMaxF16));
    }
    if (value != 0 && (half & 0x7FFFU) == 0) ++result.vanished_values;
    scratch.norms[i] = half;
  }
  return writer_.WriteBlob(position, BytesOf(scratch.norms));
}

absl::Status Writer::WriteF32(size_t position, Scratch& scratch) {
  RETURN_IF_ERROR(CheckFinite(position, scratch.values));
  return writer_.WriteBlob(position, BytesOf(scratch.values));
}

absl::Status Writer::WriteTile(const Tile& tile, Scratch& scratch, TileResult& result) {
  if (IsCopied(tile.position)) {
    return writer_.WriteBlob(tile.position, job_.copies[tile.position]);
  }
  switch (specs_[tile.position].dtype) {
    case DType::kRaw:
      return writer_.WriteBlob(tile.position, job_.tokenizer);
    case DType::kCq:
      return WriteCq(tile, scratch, result);
    case DType::kF16:
      RETURN_IF_ERROR(ReadTile(tile, scratch));
      return WriteF16(tile.position, scratch, result);
    case DType::kF32:
      RETURN_IF_ERROR(ReadTile(tile, scratch));
      return WriteF32(tile.position, scratch);
  }
  return absl::InternalError("a tensor of no dtype");
}

bool Writer::ReportProgress(const Tile& tile) {
  if (!job_.progress) return true;
  const std::lock_guard lock(progress_mutex_);
  progress_.values_done += tile.num_rows * TensorCols(specs_[tile.position]);
  rows_left_[tile.position] -= tile.num_rows;
  if (rows_left_[tile.position] == 0) ++progress_.tensors_done;
  return job_.progress(progress_);
}

std::vector<TensorReport> Writer::MakeReports(const std::vector<Tile>& tiles,
                                              const std::vector<TileResult>& results) const {
  std::vector<TensorReport> reports(specs_.size());
  for (size_t i = 0; i < specs_.size(); ++i) {
    TensorReport& report = reports[i];
    report = {.name = specs_[i].name,
              .dtype = specs_[i].dtype,
              .shape = specs_[i].shape,
              .width = {},
              .num_bytes = job_.layout->records[i].num_bytes,
              .stats = {},
              .vanished_values = 0,
              .recipe = ""};
    if (report.dtype != DType::kCq) continue;
    report.width = WidthOf(i);
    report.recipe = IsCopied(i) ? "copied" : job_.encoder->Recipe(i);
  }
  for (size_t i = 0; i < tiles.size(); ++i) {
    reports[tiles[i].position].stats.Add(results[i].stats);
    reports[tiles[i].position].vanished_values += results[i].vanished_values;
  }
  return reports;
}

absl::StatusOr<std::vector<TensorReport>> Writer::Run() {
  const std::vector<Tile> tiles = MakeTiles();
  std::vector<TileResult> results(tiles.size());
  progress_.num_tensors = specs_.size();
  for (const format::TensorSpec& spec : specs_) {
    rows_left_.push_back(TensorRows(spec));
    progress_.num_values += TensorRows(spec) * TensorCols(spec);
  }
  base::ThreadPool pool(base::ResolveThreads(job_.threads));
  std::vector<Scratch> scratch(pool.num_threads());
  std::atomic<bool> stop = false;
  // Tiles are handed out in order, so that every tile before one that fails has been started: the
  // first failure in file order is always found.
  pool.ParallelFor(tiles.size(), 1, [&](size_t begin, size_t, size_t worker) {
    if (stop.load(std::memory_order_relaxed)) return;
    results[begin].status = WriteTile(tiles[begin], scratch[worker], results[begin]);
    if (results[begin].status.ok() && !ReportProgress(tiles[begin])) {
      results[begin].status = absl::CancelledError("stopped by the caller");
    }
    if (!results[begin].status.ok()) stop.store(true, std::memory_order_relaxed);
  });
  for (const TileResult& result : results) RETURN_IF_ERROR(result.status);
  return MakeReports(tiles, results);
}

}  // namespace

std::vector<std::string> ValueWarnings(const std::vector<TensorReport>& tensors) {
  std::vector<std::string> warnings;
  for (const TensorReport& tensor : tensors) {
    if (tensor.stats.subnormal_norms > 0) {
      warnings.push_back(
          absl::StrFormat("%s: %d of %d group norms are below f16's normal range "
                          "and lose precision",
                          tensor.name, tensor.stats.subnormal_norms, tensor.stats.groups));
    }
    if (tensor.vanished_values > 0) {
      warnings.push_back(absl::StrFormat("%s: %d values that are not 0 become 0 in f16",
                                         tensor.name, tensor.vanished_values));
    }
  }
  return warnings;
}

absl::StatusOr<std::vector<TensorReport>> WriteArchive(const ArchiveJob& job,
                                                       const std::string& target) {
  ASSIGN_OR_RETURN(format::ArchiveWriter file,
                   format::ArchiveWriter::Create(target, *job.layout, job.codebooks));
  Writer writer(job, file);
  RETURN_IF_ERROR(writer.MakeCodebooks());
  ASSIGN_OR_RETURN(std::vector<TensorReport> reports, writer.Run());
  RETURN_IF_ERROR(file.Finish());
  return reports;
}

}  // namespace needle::converter
