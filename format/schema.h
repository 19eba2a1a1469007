// format/schema.h: which tensors an archive holds, in which order, with which shapes. The only list
// of tensors in the project: the writer, the validator, the plan, the slicer, the engine, inspect
// and the bit map read it. Specification: "Tensor order, Needle 3", "Probe heads, Needle 3",
// "Tensor order, Needle 2".
#ifndef NEEDLE_FORMAT_SCHEMA_H_
#define NEEDLE_FORMAT_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "format/geometry.h"

namespace needle::format {

// Values are the `dtype` of a directory record.
enum class DType : uint8_t { kF16 = 1, kF32 = 2, kCq = 3, kRaw = 4 };
std::string_view DTypeName(DType dtype);  // "FP16", "FP32", "CQ", "RAW"

enum class TensorRole : uint8_t {
  kEmbedding,
  // Once a layer.
  kNormIn,
  kQProj,
  kKProj,
  kVProj,
  kQTaps,
  kKTaps,
  kVTaps,
  kQNorm,
  kKNorm,
  kGateProj,
  kOutProj,
  kPostNorm,
  kAttnGate,
  kPreHada,
  kD1,
  kD2,
  kB2,
  kD3,
  kD4,
  kW1a,
  kW1b,
  kW2a,
  kW2b,
  kW3a,
  kW3b,
  kCondV,
  kCondU,
  // Once.
  kMhcAPre,
  kMhcAPost,
  kMhcARes,
  kMhcBPre,
  kMhcBPost,
  kMhcBRes,
  kMhcPhiPre,
  kMhcPhiPost,
  kMhcPhiRes,
  kHadaP1,
  kHadaP2,
  // Once an engram site.
  kEngramTables,
  kEngramKeyProj,
  kEngramValueProj,
  kEngramTaps,
  kFinalNorm,
  kHeadsManifest,
  // Once a head.
  kHeadProbes,
  kHeadGain,
  kHeadQuery,
  kHeadRowBias,
  kHeadProj,
  kHeadBias,
  kHeadCalibration,
  kTokenizer,
};

// A tensor's identity. `index` is the layer, the site's number (0, 1, ...) or the head's position
// in the manifest; 0 for tensors that are there once.
struct TensorId {
  TensorRole role = TensorRole::kEmbedding;
  uint32_t index = 0;
  friend bool operator==(const TensorId&, const TensorId&) = default;
};

bool IsLayerRole(TensorRole role);
bool IsEngramRole(TensorRole role);
bool IsHeadRole(TensorRole role);  // kHeadProbes ... kHeadCalibration
// The last part of the canonical name: "q_proj", "mhc_phi_pre", "tables", "probes".
std::string_view RoleName(TensorRole role);

enum class HeadKind : uint8_t { kEmbedding, kConfidence, kRouter, kContrastive };
// "embedding_head", "confidence_head", "router_head", "contrastive_head".
std::string_view HeadName(HeadKind kind);
// The code in heads.manifest: Needle 3 embedding 1, confidence 2, router 3; Needle 2 contrastive 1,
// confidence 2.
uint32_t HeadCode(Generation generation, HeadKind kind);
std::optional<HeadKind> HeadKindFromCode(Generation generation, uint32_t code);
// The tensors of a head in file order.
std::span<const TensorRole> HeadRoles(Generation generation, HeadKind kind);

// What the header does not say of a head.
struct HeadShape {
  HeadKind kind = HeadKind::kEmbedding;
  uint32_t probes = 0;   // Needle 3: k probes for each of L+1 rows; Needle 2: P in all
  uint32_t queries = 0;  // Needle 3 only
  uint32_t out = 0;
  bool fp16_matrices =
      false;  // Needle 3: matrices stored as FP16, probes as [L+1, k, d]. Read, never written.
  friend bool operator==(const HeadShape&, const HeadShape&) = default;
};

struct TensorSpec {
  TensorId id;
  std::string name;  // canonical: "embedding", "layer07.q_proj", "engram0.tables",
                     // "confidence_head.probes", "tokenizer"
  DType dtype = DType::kF16;
  std::vector<uint32_t> shape;  // row-major; empty for RAW
};

class Schema {
 public:
  // `geometry` must pass CheckGeometry. `heads` are in manifest order, each kind at most once.
  // InvalidArgument: a head that the generation does not have, twice, or out of order.
  static absl::StatusOr<Schema> Make(const Geometry& geometry, std::vector<HeadShape> heads,
                                     bool has_tokenizer);

  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  const std::vector<HeadShape>& heads() const { return heads_; }
  bool has_tokenizer() const { return has_tokenizer_; }

  // Position in file order, or nothing.
  std::optional<size_t> Find(TensorId id) const;
  std::optional<size_t> FindName(std::string_view canonical_name) const;

 private:
  std::vector<TensorSpec> tensors_;
  std::vector<HeadShape> heads_;
  bool has_tokenizer_ = false;
};

// Values of a shape: the product of its dimensions (1 for an empty shape), or nothing when it does
// not fit in 64 bits.
std::optional<uint64_t> NumValues(const std::vector<uint32_t>& shape);
// "[4, 256]"
std::string ShapeText(const std::vector<uint32_t>& shape);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_SCHEMA_H_
