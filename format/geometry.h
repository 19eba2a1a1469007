// format/geometry.h: every number of a header, one struct for both generations. Specification: "The
// .cact container".
#ifndef NEEDLE_FORMAT_GEOMETRY_H_
#define NEEDLE_FORMAT_GEOMETRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace needle::format {

enum class Generation : uint8_t { kNeedle2 = 2, kNeedle3 = 3 };

// "Needle 2" or "Needle 3".
std::string GenerationName(Generation generation);

// The shape of a model. Needle 2 has one head_dim (qk_head_dim == v_head_dim), out_vocab == vocab,
// and zeros for what it does not know (sliding_window, global_mask, qkv_conv_taps,
// engram_seed_heads).
struct Geometry {
  Generation generation = Generation::kNeedle3;
  uint32_t kv_window = 0;
  uint32_t kv_bits = 8;
  uint32_t vocab = 0;
  uint32_t out_vocab = 0;  // 0: all of vocab
  uint32_t d_model = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t num_layers = 0;
  uint32_t qk_head_dim = 0;
  uint32_t v_head_dim = 0;
  uint32_t max_seq_len = 0;
  uint32_t hada_n = 0;
  uint32_t mhc_lanes = 0;
  uint32_t sliding_window = 0;
  uint64_t global_mask = 0;  // bit i: layer i attends globally
  uint32_t qkv_conv_taps = 0;
  uint32_t engram_slots = 0;
  uint32_t engram_sub_dim = 0;
  uint32_t num_engram_tables = 0;
  uint32_t engram_conv_taps = 0;
  uint32_t engram_conv_dilation = 0;
  uint32_t engram_seed_heads = 0;  // 0: heads per order
  std::vector<uint32_t> engram_orders;
  std::vector<uint32_t> engram_sites;  // layer index of each site, ascending
  float rope_theta = 0;

  friend bool operator==(const Geometry&, const Geometry&) = default;

  // Rows of the logits: out_vocab, or vocab when that is 0.
  uint32_t LogitRows() const { return out_vocab == 0 ? vocab : out_vocab; }
  // The two Kronecker factors of hada_n: 2^floor(log2(n)/2) and n over that.
  uint32_t HadaA() const;
  uint32_t HadaB() const { return hada_n / HadaA(); }
  // num_engram_tables / number of orders; 0 without orders.
  uint32_t EngramHeadsPerOrder() const;
  // Values of one position's gathered engram rows: num_engram_tables * engram_sub_dim.
  uint32_t EngramWidth() const { return num_engram_tables * engram_sub_dim; }
  bool IsGlobal(uint32_t layer) const { return layer < 64 && ((global_mask >> layer) & 1) != 0; }
};

// The limits of the container.
inline constexpr uint32_t kMaxLayers = 64;
inline constexpr uint32_t kMaxEngramOrders = 4;
constexpr uint32_t MaxEngramSites(Generation generation) {
  return generation == Generation::kNeedle2 ? 4 : 16;
}

// "geometry that cannot run", one rule after the other in the specification's order. DataLoss
// naming the field, the value found and the value wanted. Field names are those of the header
// tables.
absl::Status CheckGeometry(const Geometry& geometry);

// The smallest power of two >= value (value >= 1).
uint32_t NextPowerOfTwo(uint32_t value);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_GEOMETRY_H_
