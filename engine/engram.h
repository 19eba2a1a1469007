// engine/engram.h: the n-gram memory. Specification: "Engram" and "Layer i", step 3. Internal to
// engine/.
#ifndef NEEDLE_ENGINE_ENGRAM_H_
#define NEEDLE_ENGINE_ENGRAM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/matrix.h"
#include "engine/run.h"

namespace needle::engine {

// Row of each table of a site at the last of `tokens` (at least one), in table order;
// Observer::kNoRow where there are fewer tokens than the order. `rows` has num_engram_tables
// values. Each row counts within the whole [tables * slots] tensor.
void EngramRows(const format::Geometry& geometry, std::span<const uint32_t> tokens,
                std::span<uint32_t> rows);

class Engram {
 public:
  explicit Engram(const format::Geometry& geometry);

  // v += sigma(<unit(u), unit(ek)> / sqrt(d)) * ev at site number `site`; u and v are [count, d].
  // Internal: a table row cannot be decoded (our bug).
  absl::Status Apply(Run& run, size_t site, std::span<const float> u, std::span<float> v);
  // The hashes of the chunk, for all its sites.
  void Hash(const Run& run);
  void Reset();
  size_t MemoryBytes() const;

 private:
  absl::Status Gather(Run& run, size_t site);

  size_t d_;
  size_t width_;                    // tables * sub_dim
  std::vector<uint32_t> rows_;      // [count, tables]
  std::vector<float> e_;            // [kChunk, width]
  std::vector<float> key_;          // [kChunk, d]
  std::vector<float> raw_;          // [history + kChunk, d]
  std::vector<float> value_;        // [kChunk, d]
  std::vector<History> histories_;  // of raw values, for each site
  Activations input_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_ENGRAM_H_
