// converter/tensor_plan.h: every tensor of an archive bound to where its values come from, before
// anything is written. Specification: "Full-precision checkpoints", all of it.
#ifndef NEEDLE_CONVERTER_TENSOR_PLAN_H_
#define NEEDLE_CONVERTER_TENSOR_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "converter/checkpoint.h"
#include "converter/model_config.h"
#include "converter/rebalance.h"
#include "converter/tensor_source.h"
#include "format/layer_selection.h"
#include "format/record.h"
#include "format/width.h"
#include "quant/bit_map.h"

namespace needle::converter {

struct PlanOptions {
  quant::BitMap bit_map;
  uint32_t layers = 0;                // depth; 0: all
  std::vector<std::string> adapters;  // paths, merged in this order
  bool keep_confidence = false;       // keep the confidence head although an adapter is merged
  // A SentencePiece .model or a .cact. Nothing: tokenizer.model beside the checkpoint, if there is
  // one. Empty: none.
  std::optional<std::string> tokenizer;
  bool rebalance = false;  // attention inputs as of BalanceInputs: other tensors, one function
  bool strict = false;     // warnings about the tree are errors
};

// Immutable after Make; any number of threads may read. Movable.
class TensorPlan final : public TensorSource {
 public:
  // InvalidArgument: options (depth, bit map). Unimplemented: a tree or tokenizer that no archive
  // can hold. DataLoss: everything that is missing, misshapen or of an integer type, in one message
  // of a line each. Reads no weights apart from adapters and the tokenizer; for rebalancing,
  // those of attention.
  static absl::StatusOr<TensorPlan> Make(std::shared_ptr<const Checkpoint> checkpoint,
                                         const PlanOptions& options);

  TensorPlan(TensorPlan&&) noexcept;
  TensorPlan& operator=(TensorPlan&&) noexcept;
  ~TensorPlan() override;

  const Checkpoint& checkpoint() const;
  const ModelConfig& config() const;
  // Exact sizes and offsets of the archive: layout().header.geometry, .schema, .records,
  // .file_bytes.
  const format::ArchiveLayout& layout() const;
  const format::Geometry& geometry() const { return layout().header.geometry; }
  const format::Schema& schema() const { return layout().schema; }
  // One for each tensor of the schema; meaningless for tensors that are not CQ.
  std::span<const format::Width> widths() const;
  // Which blocks and sites of the input the result keeps. selection().layers[i] is the number in
  // the input of the result's layer i.
  const format::LayerSelection& selection() const;
  // What the user should know: unknown leaves, adapters that name training-only leaves, ...
  const std::vector<std::string>& warnings() const;
  // The attachment's bytes, empty without one, and the file it came from.
  std::span<const uint8_t> tokenizer() const;
  const std::string& tokenizer_path() const;
  // Of each layer of the result; empty when nothing was asked for.
  std::span<const InputBalance> balances() const;
  // Every file that was read: checkpoint (shards), adapters, tokenizer.
  std::vector<std::string> files() const;

  // TensorSource. Weights are in archive orientation, merged with the adapters, then rebalanced;
  // not checked for NaN.
  absl::Status ReadRows(size_t position, uint64_t first, uint64_t count,
                        std::span<float> values) const override;

 private:
  struct State;
  explicit TensorPlan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_TENSOR_PLAN_H_
