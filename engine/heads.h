// engine/heads.h: the probe heads of both generations. Specification: "Probe heads", "Needle 2".
#ifndef NEEDLE_ENGINE_HEADS_H_
#define NEEDLE_ENGINE_HEADS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/weight_source.h"
#include "format/geometry.h"
#include "format/schema.h"

namespace needle::engine {

struct HeadOutput {
  format::HeadKind kind = format::HeadKind::kEmbedding;
  // Embedding and contrastive: normalised to length 1. Confidence: the raw logit. Router: 3 logits.
  std::vector<float> values;
  float probability = 0;           // confidence: sigma of the logit
  std::vector<float> calibration;  // router: the stored triple
};

// The heads of one model, in f32 in every numerics. Immutable; any number of threads.
class ProbeHeads {
 public:
  // A source without heads gives an empty set. Errors as of WeightSource::Floats, with the source's
  // name.
  static absl::StatusOr<ProbeHeads> Load(const WeightSource& source);

  std::span<const format::HeadShape> shapes() const { return shapes_; }

  // Every head's output, in manifest order. `cells`: row-major [tokens.size(), L + 1, d] as of
  // Session::cells. Positions whose token is `pad_id` are left out. InvalidArgument: sizes do not
  // fit, or no position is left.
  absl::StatusOr<std::vector<HeadOutput>> Run(std::span<const float> cells,
                                              std::span<const uint32_t> tokens,
                                              uint32_t pad_id) const;

 private:
  struct Head {  // empty vectors: not of this generation
    format::HeadShape shape;
    std::vector<float> probes;       // [L + 1, k, d], Needle 2 [P, d]
    std::vector<float> gain;         // [L + 1, k]
    std::vector<float> query;        // [q, d]
    std::vector<float> row_bias;     // [q, L + 1, k]
    std::vector<float> proj;         // [out, q * d], Needle 2 [out, P * d]
    std::vector<float> bias;         // [out]
    std::vector<float> calibration;  // [3]
  };

  std::vector<float> PoolPositions(const Head& head, std::span<const float> cells) const;
  std::vector<float> Features(const Head& head, std::span<const float> cells) const;
  HeadOutput RunHead(const Head& head, std::span<const float> cells) const;

  format::Geometry geometry_;
  std::vector<format::HeadShape> shapes_;
  std::vector<Head> heads_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_HEADS_H_
