// engine/kv_cache.h: keys and values of one kv head of one layer, and attention over them.
// Specification: "Attention", "kernel". Internal to engine/.
#ifndef NEEDLE_ENGINE_KV_CACHE_H_
#define NEEDLE_ENGINE_KV_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "quant/codebook.h"

namespace needle::engine {

enum class KvStorage : uint8_t {
  kF32,   // float and a8: a8 quantises before it stores
  kInt8,  // kv_bits 8: int8 and one scale for each head vector
  kCq,    // kv_bits 2 ... 4: packed indices and f16 norms in groups of 64
};

// CQ of single head vectors in groups of 64, zero-padded. Specification: "Attention".
class KvCodec {
 public:
  static constexpr uint32_t kGroup = 64;

  // kv_bits 2, 3 or 4; `dim` values a vector.
  KvCodec(uint32_t kv_bits, size_t dim);

  size_t dim() const { return dim_; }
  size_t groups() const { return (dim_ + kGroup - 1) / kGroup; }
  size_t padded_dim() const { return groups() * kGroup; }
  size_t index_bytes() const { return groups() * kGroup * format::StoredBits(width()) / 8; }
  format::Width width() const { return codebook_.width(); }

  // DataLoss: a value is not finite, or too large for an f16 norm.
  absl::Status Encode(std::span<const float> values, std::span<uint8_t> indices,
                      std::span<uint16_t> norms) const;
  // Before the rotation back: padded_dim() values, value i at rotated[i * stride].
  void DecodeRotated(std::span<const uint8_t> indices, std::span<const uint16_t> norms,
                     float* rotated, size_t stride) const;
  // What a vector becomes by being stored.
  absl::Status RoundTrip(std::span<float> values) const;

 private:
  quant::Codebook codebook_;
  size_t dim_;
};

struct KvShape {
  KvStorage storage = KvStorage::kF32;
  size_t qk_dim = 0;
  size_t v_dim = 0;
  size_t max_positions = 0;  // that must be readable at once: the ring's size
  uint32_t kv_bits = 8;      // read for kCq
};

// Working memory of one thread, reused between calls.
struct AttendScratch {
  std::vector<float> scores;   // [query heads, stride]
  std::vector<float> queries;  // rotated, [query heads, padded qk]
  std::vector<float> tile;     // decoded keys or values of 16 positions
  std::vector<float> values;   // [query heads, padded v]
};

// A ring of positions. Keys lie in tiles of 16 positions, [qk_dim, 16] each, so that the scores of
// 16 positions are computed side by side; values lie row by row.
class KvHead {
 public:
  explicit KvHead(const KvShape& shape);

  // Makes room for positions before `end`. Allocates only when the session has doubled in length.
  void Reserve(size_t end);
  // Stores position `position`; k has qk_dim values, v has v_dim. DataLoss as of KvCodec::Encode.
  absl::Status Append(size_t position, std::span<const float> k, std::span<const float> v);
  // Makes `scratch` large enough for Attend with `heads` query heads until the next Reserve.
  void Prepare(size_t heads, AttendScratch& scratch) const;
  // out[h] = sum over p in [first, last] of softmax(q[h] . k[p] / sqrt(qk_dim)) * v[p] for `heads`
  // query heads; q is [heads, qk_dim], out [heads, v_dim]. All those positions must be in the ring.
  void Attend(const float* q, size_t heads, size_t first, size_t last, AttendScratch& scratch,
              float* out) const;
  size_t MemoryBytes() const;

 private:
  static constexpr size_t kTile = 16;

  void Scores(const float* q, size_t heads, size_t first, size_t last, size_t stride,
              AttendScratch& scratch) const;
  void WeightedValues(size_t heads, size_t first, size_t last, size_t stride,
                      AttendScratch& scratch, float* out) const;
  // Overwrites `weights` with int8 storage.
  void AddValues(size_t slot, size_t run, float* weights, size_t heads, size_t stride,
                 bool accumulate, AttendScratch& scratch, float* out) const;

  KvShape shape_;
  std::optional<KvCodec> k_codec_, v_codec_;
  size_t capacity_ = 0;           // slots, a multiple of kTile
  std::vector<float> k_f32_;      // tiles
  std::vector<float> v_f32_;      // [slot, v_dim]
  std::vector<int8_t> k_i8_;      // tiles
  std::vector<int8_t> v_i8_;      // [slot, v_dim]
  std::vector<float> k_scale_;    // [slot]
  std::vector<float> v_scale_;    // [slot]
  std::vector<uint8_t> k_index_;  // [slot, index_bytes]
  std::vector<uint8_t> v_index_;
  std::vector<uint16_t> k_norm_;  // [slot, groups]
  std::vector<uint16_t> v_norm_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_KV_CACHE_H_
