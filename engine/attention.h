// engine/attention.h: gated grouped-query attention. Specification: "Attention". Internal to
// engine/.
#ifndef NEEDLE_ENGINE_ATTENTION_H_
#define NEEDLE_ENGINE_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/kv_cache.h"
#include "engine/matrix.h"
#include "engine/run.h"

namespace needle::engine {

// Positions that layer `layer` sees, itself included; 0: all before it.
size_t AttentionWindow(const format::Geometry& geometry, uint32_t layer);

class Attention {
 public:
  // kv_bits must be one that Model::Load lets pass.
  Attention(const format::Geometry& geometry, Numerics numerics, size_t num_workers);

  // First half: q, k, v and the gate of each position; x is [count, d] and overwritten (by Q).
  void Project(Run& run, size_t layer, std::span<float> x);
  // Second half: out = attention(x), [count, d], after Project of the same chunk and layer.
  // DataLoss: keys or values are not finite, or too large for kv_bits below 8.
  absl::Status Mix(Run& run, size_t layer, std::span<float> out);
  void Reset();
  size_t MemoryBytes() const;

 private:
  // The projections q, k and v in turn.
  struct Stream {
    size_t heads = 0;
    size_t dim = 0;
    std::vector<float> raw;          // [history + kChunk, heads * dim]
    std::vector<float> ready;        // [kChunk, heads * dim]: convolved, normalised, rotated
    std::vector<History> histories;  // for each layer
    size_t width() const { return heads * dim; }
  };
  enum { kQ, kK, kV };

  void MakeCaches(const format::Geometry& geometry, Numerics numerics);
  absl::Status Prepare(const Run& run, size_t layer, size_t t);
  absl::Status QuantizeKv(const Run& run, std::span<float> head, const KvCodec* codec) const;
  absl::Status Store(Run& run, size_t layer);
  void Attend(Run& run, size_t layer);

  size_t d_;
  Stream streams_[3];
  std::vector<float> gate_;                   // [kChunk, heads * v]
  std::vector<float> mixed_;                  // [kChunk, heads * v]
  std::vector<std::vector<KvHead>> caches_;   // for each layer and kv head
  std::optional<KvCodec> k_codec_, v_codec_;  // of a8 with kv_bits below 8
  std::vector<AttendScratch> scratch_;        // for each worker
  std::vector<absl::Status> statuses_;        // for each position of the chunk
  Activations input_, output_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_ATTENTION_H_
