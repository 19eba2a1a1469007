// converter/calibrate/encoded_tensors.h: CQ tensors that are already chosen: as a source of weights
// for the engine, and as the encoder of a build.
#ifndef NEEDLE_CONVERTER_CALIBRATE_ENCODED_TENSORS_H_
#define NEEDLE_CONVERTER_CALIBRATE_ENCODED_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/thread_pool.h"
#include "converter/tensor_encoder.h"
#include "converter/tensor_plan.h"
#include "converter/verify/plan_weights.h"
#include "engine/weight_source.h"
#include "format/archive.h"
#include "quant/codebook.h"
#include "quant/encode.h"

namespace needle::calibrate {

// One CQ tensor's blob, in parts.
struct EncodedTensor {
  quant::Codebook codebook;
  format::CqLayout layout;
  std::vector<uint8_t> indices;  // layout.rows * layout.row_bytes
  std::vector<uint8_t> norms;    // layout.rows * layout.groups little-endian f16
  std::string recipe;

  // Room for a [rows, cols] tensor, all zero.
  static absl::StatusOr<EncodedTensor> Make(uint64_t rows, uint64_t cols,
                                            const quant::Codebook& codebook);
  // Valid as long as this object.
  format::CqView View() const;
  // Rows from `first` on; either span may be empty.
  void SetRows(uint64_t first, std::span<const uint8_t> row_indices,
               std::span<const uint16_t> row_norms);
  std::vector<uint16_t> Norms(uint64_t first, uint64_t count) const;
};

// By position in the schema; nothing where a tensor is not CQ, or not chosen yet.
using EncodedTensors = std::vector<std::optional<EncodedTensor>>;

// quant::EncodeRows or quant::SearchRows.
using RowEncoder = absl::StatusOr<quant::EncodeStats> (*)(std::span<const float>, size_t, size_t,
                                                          const quant::Codebook&,
                                                          std::span<uint8_t>, std::span<uint16_t>);

// All rows of `weights` [rows, cols]. Errors as of `encode`.
absl::StatusOr<EncodedTensor> EncodeTensor(std::span<const float> weights, uint64_t cols,
                                           const quant::Codebook& codebook, RowEncoder encode,
                                           base::ThreadPool& pool);
// Every CQ tensor of `plan`. Errors as of `encode`, with the tensor.
absl::StatusOr<EncodedTensors> EncodeAll(const converter::TensorPlan& plan,
                                         quant::CodebookKind codebook, RowEncoder encode,
                                         std::string_view recipe, base::ThreadPool& pool);
// Rows [first, first + count) as f32, [count, cols].
absl::StatusOr<std::vector<float>> DecodeRows(const EncodedTensor& tensor, uint64_t first,
                                              uint64_t count);

// A plan's tensors as an archive would hold them: CQ tensors that are chosen decoded from what was
// chosen, others at full precision; FP16 tensors rounded to f16. Tensors may be added between
// loads of models, not during one.
class EncodedWeights final : public engine::WeightSource {
 public:
  EncodedWeights(std::shared_ptr<const converter::TensorPlan> plan,
                 std::shared_ptr<const EncodedTensors> tensors);

  const std::string& name() const override { return floats_.name(); }
  const format::Geometry& geometry() const override { return floats_.geometry(); }
  const format::Schema& schema() const override { return floats_.schema(); }
  absl::StatusOr<std::vector<float>> Floats(format::TensorId id) const override;
  std::optional<format::CqView> Packed(format::TensorId id) const override;
  std::optional<std::span<const uint8_t>> Tokenizer() const override { return floats_.Tokenizer(); }

 private:
  const EncodedTensor* Find(format::TensorId id) const;

  verify::PlanWeights floats_;
  std::shared_ptr<const EncodedTensors> tensors_;
};

// Hands out what was chosen. Every CQ tensor must be there.
class CalibratedEncoder final : public converter::TensorEncoder {
 public:
  explicit CalibratedEncoder(std::shared_ptr<const EncodedTensors> tensors);

  // InvalidArgument: another width, shape or codebook than the one that was chosen for. Otherwise
  // as of quant::EncodeRows.
  absl::StatusOr<quant::EncodeStats> Encode(const converter::EncodeRequest& request) const override;
  std::string Recipe(size_t position) const override;
  const EncodedTensors& tensors() const { return *tensors_; }

 private:
  std::shared_ptr<const EncodedTensors> tensors_;
};

}  // namespace needle::calibrate

#endif  // NEEDLE_CONVERTER_CALIBRATE_ENCODED_TENSORS_H_
