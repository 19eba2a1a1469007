#include "converter/calibrate/encoded_tensors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "base/thread_pool.h"
#include "converter/tensor_source.h"
#include "quant/norm_search.h"

namespace needle::calibrate {
namespace {

// Rows of one task when a whole tensor is encoded.
constexpr size_t kRowsPerTask = 64;

absl::Status AtTensor(const absl::Status& status, const format::TensorSpec& spec) {
  return base::WithContext(status, spec.name);
}

}  // namespace

absl::StatusOr<EncodedTensor> EncodedTensor::Make(uint64_t rows, uint64_t cols,
                                                  const quant::Codebook& codebook) {
  ASSIGN_OR_RETURN(const format::CqLayout layout,
                   format::CqLayout::Make(rows, cols, codebook.group(), codebook.width()));
  return EncodedTensor{.codebook = codebook,
                       .layout = layout,
                       .indices = std::vector<uint8_t>(rows * layout.row_bytes),
                       .norms = std::vector<uint8_t>(rows * layout.groups * sizeof(uint16_t)),
                       .recipe = {}};
}

format::CqView EncodedTensor::View() const {
  const bool stored = layout.cols > 0 && codebook.width() != format::Width::kTernary &&
                      codebook.width() != format::Width::kBinary;
  return {.width = codebook.width(),
          .group = codebook.group(),
          .layout = layout,
          .indices = indices,
          .norms = norms,
          .codebook = stored ? codebook.entries() : std::span<const float>()};
}

void EncodedTensor::SetRows(uint64_t first, std::span<const uint8_t> row_indices,
                            std::span<const uint16_t> row_norms) {
  std::copy(row_indices.begin(), row_indices.end(),
            indices.begin() + static_cast<ptrdiff_t>(first * layout.row_bytes));
  for (size_t i = 0; i < row_norms.size(); ++i) {
    base::StoreLe<uint16_t>(&norms[(first * layout.groups + i) * sizeof(uint16_t)], row_norms[i]);
  }
}

std::vector<uint16_t> EncodedTensor::Norms(uint64_t first, uint64_t count) const {
  std::vector<uint16_t> result(count * layout.groups);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = base::LoadLe<uint16_t>(&norms[(first * layout.groups + i) * sizeof(uint16_t)]);
  }
  return result;
}

absl::StatusOr<EncodedTensor> EncodeTensor(std::span<const float> weights, uint64_t cols,
                                           const quant::Codebook& codebook, RowEncoder encode,
                                           base::ThreadPool& pool) {
  const uint64_t rows = weights.size() / cols;
  ASSIGN_OR_RETURN(EncodedTensor tensor, EncodedTensor::Make(rows, cols, codebook));
  std::vector<uint16_t> norms(rows * tensor.layout.groups);
  std::vector<absl::Status> statuses((rows + kRowsPerTask - 1) / kRowsPerTask);
  const auto body = [&](size_t begin, size_t end, size_t) {
    const size_t count = end - begin;
    statuses[begin / kRowsPerTask] =
        encode(weights.subspan(begin * cols, count * cols), cols, begin, codebook,
               std::span(tensor.indices)
                   .subspan(begin * tensor.layout.row_bytes, count * tensor.layout.row_bytes),
               std::span(norms).subspan(begin * tensor.layout.groups, count * tensor.layout.groups))
            .status();
  };
  pool.ParallelFor(rows, kRowsPerTask, std::ref(body));
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  tensor.SetRows(0, {}, norms);
  return tensor;
}

absl::StatusOr<std::vector<float>> DecodeRows(const EncodedTensor& tensor, uint64_t first,
                                              uint64_t count) {
  std::vector<float> values(count * tensor.layout.cols);
  RETURN_IF_ERROR(quant::DecodeRows(tensor.View(), tensor.codebook, first, count, values));
  return values;
}

absl::StatusOr<EncodedTensors> EncodeAll(const converter::TensorPlan& plan,
                                         quant::CodebookKind codebook, RowEncoder encode,
                                         std::string_view recipe, base::ThreadPool& pool) {
  const auto& specs = plan.schema().tensors();
  EncodedTensors tensors(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].dtype != format::DType::kCq) continue;
    ASSIGN_OR_RETURN(const std::vector<float> weights,
                     converter::ReadTensor(plan, plan.schema(), i));
    auto tensor = EncodeTensor(weights, specs[i].shape[1],
                               quant::Codebook::Standard(plan.widths()[i], codebook), encode, pool);
    if (!tensor.ok()) return AtTensor(tensor.status(), specs[i]);
    tensor->recipe = recipe;
    tensors[i] = *std::move(tensor);
  }
  return tensors;
}

EncodedWeights::EncodedWeights(std::shared_ptr<const converter::TensorPlan> plan,
                               std::shared_ptr<const EncodedTensors> tensors)
    : floats_(std::move(plan)), tensors_(std::move(tensors)) {}

const EncodedTensor* EncodedWeights::Find(format::TensorId id) const {
  const std::optional<size_t> position = schema().Find(id);
  if (!position || !(*tensors_)[*position]) return nullptr;
  return &*(*tensors_)[*position];
}

absl::StatusOr<std::vector<float>> EncodedWeights::Floats(format::TensorId id) const {
  if (const EncodedTensor* const tensor = Find(id); tensor != nullptr) {
    return DecodeRows(*tensor, 0, tensor->layout.rows);
  }
  ASSIGN_OR_RETURN(std::vector<float> values, floats_.Floats(id));
  const std::optional<size_t> position = schema().Find(id);
  if (!position || schema().tensors()[*position].dtype != format::DType::kF16) return values;
  for (float& value : values) value = base::F32FromF16(base::F16FromF32(value));
  return values;
}

std::optional<format::CqView> EncodedWeights::Packed(format::TensorId id) const {
  const EncodedTensor* const tensor = Find(id);
  if (tensor == nullptr) return std::nullopt;
  return tensor->View();
}

CalibratedEncoder::CalibratedEncoder(std::shared_ptr<const EncodedTensors> tensors)
    : tensors_(std::move(tensors)) {}

absl::StatusOr<quant::EncodeStats> CalibratedEncoder::Encode(
    const converter::EncodeRequest& request) const {
  if (request.position >= tensors_->size() || !(*tensors_)[request.position]) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor %d was not calibrated", request.position));
  }
  const EncodedTensor& tensor = *(*tensors_)[request.position];
  const bool same_codebook =
      request.codebook->width() == tensor.codebook.width() &&
      std::ranges::equal(request.codebook->entries(), tensor.codebook.entries());
  if (!same_codebook || request.cols != tensor.layout.cols ||
      request.first_row + request.num_rows > tensor.layout.rows) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "rows %d to %d of %d columns in %s, calibrated for %d rows of %d columns in %s%s",
        request.first_row, request.first_row + request.num_rows, request.cols,
        std::string(format::WidthName(request.codebook->width())), tensor.layout.rows,
        tensor.layout.cols, std::string(format::WidthName(tensor.codebook.width())),
        same_codebook ? "" : " with another codebook"));
  }
  const std::span<const uint8_t> indices = std::span(tensor.indices)
                                               .subspan(request.first_row * tensor.layout.row_bytes,
                                                        request.num_rows * tensor.layout.row_bytes);
  std::copy(indices.begin(), indices.end(), request.indices.begin());
  const std::vector<uint16_t> norms = tensor.Norms(request.first_row, request.num_rows);
  std::copy(norms.begin(), norms.end(), request.norms.begin());
  return quant::MeasureRows(request.weights, request.cols, *request.codebook, request.indices,
                            request.norms);
}

std::string CalibratedEncoder::Recipe(size_t position) const {
  return position < tensors_->size() && (*tensors_)[position] ? (*tensors_)[position]->recipe : "";
}

}  // namespace needle::calibrate
