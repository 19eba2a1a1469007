// converter/adapter.h: LoRA adapters, merged while weights are read. Specification: "LoRA
// adapters".
#ifndef NEEDLE_CONVERTER_ADAPTER_H_
#define NEEDLE_CONVERTER_ADAPTER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/leaf.h"

namespace needle::converter {

// The two factors of one leaf, widened to f32, row-major.
struct LoraPair {
  std::string path;         // of the leaf, "stack/layers/block/self_attn/q_proj/kernel"
  std::vector<uint64_t> a;  // shape of A: [in, r] or [L, in, r]
  std::vector<uint64_t> b;  // shape of B: [r, out] or [L, r, out]
  std::vector<float> a_values;
  std::vector<float> b_values;

  uint64_t rank() const { return a.back(); }
  // A times B where the leaf's value number `leaf_index` (row-major) lies: the sum over the rank in
  // ascending order, in f32.
  float Product(uint64_t leaf_index) const;
};

// A value type; its factors are in memory.
class Adapter {
 public:
  // Reads a .safetensors or .pkl adapter. DataLoss: A without B or the reverse, shapes that do not
  // fit (both named), a rank other than the metadata's, no or no numeric scale, a factor that is
  // not finite, no leaf, nothing that changes anything. Unimplemented: non-null `languages`.
  // Messages start with the path.
  static absl::StatusOr<Adapter> Open(const std::string& path);

  const std::string& path() const { return path_; }
  float scale() const { return scale_; }
  // Sorted by path.
  std::span<const LoraPair> pairs() const& { return pairs_; }
  std::span<const LoraPair> pairs() && = delete;

  // Checks every pair against the base's `leaves` (sorted by name): DataLoss naming both when a
  // leaf is missing or its shape does not fit.
  absl::Status CheckAgainst(const std::vector<Leaf>& leaves) const;
  // The pair of a leaf, or null. Valid as long as the adapter.
  const LoraPair* Find(std::string_view leaf_path) const;

 private:
  std::string path_;
  float scale_ = 0;
  std::vector<LoraPair> pairs_;
};

// A leaf's value after the merge of one pair: the product times `scale` is rounded to the leaf's
// type, added, and the sum rounded again. `weight` is a value of `type`, and so is the result.
double MergedValue(quant::SourceType type, double weight, float product, float scale);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_ADAPTER_H_
