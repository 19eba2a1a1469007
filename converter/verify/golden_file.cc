#include "converter/verify/golden_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "converter/leaf_container.h"
#include "converter/verify/tensor_file_writer.h"
#include "quant/encode.h"

namespace needle::verify {
namespace {

// Row-major from column-major values of `shape`.
std::vector<float> RowMajor(std::span<const float> values, std::span<const uint64_t> shape) {
  std::vector<float> ordered(values.size());
  std::vector<uint64_t> index(shape.size(), 0);
  for (float& value : ordered) {
    uint64_t place = 0, stride = 1;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      place += index[axis] * stride;
      stride *= shape[axis];
    }
    value = values[place];
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
  return ordered;
}

class ContainerTensors final : public NamedTensors {
 public:
  ContainerTensors(std::string path, std::unique_ptr<converter::LeafContainer> container)
      : path_(std::move(path)), container_(std::move(container)) {}

  const std::string& name() const override { return path_; }
  const std::vector<converter::Leaf>& tensors() const override { return container_->leaves(); }
  absl::StatusOr<std::vector<float>> Values(size_t index) const override {
    const converter::Leaf& leaf = tensors()[index];
    ASSIGN_OR_RETURN(const converter::LeafData data, container_->Data(index));
    std::vector<float> values(data.bytes.size() / sizeof(float));
    quant::ConvertToF32(data.bytes, quant::SourceType::kF32, values);
    return data.fortran_order ? RowMajor(values, leaf.shape) : values;
  }

 private:
  std::string path_;
  std::unique_ptr<converter::LeafContainer> container_;
};

class ArchiveTensors final : public NamedTensors {
 public:
  explicit ArchiveTensors(format::Archive archive) : archive_(std::move(archive)) {
    const auto& specs = archive_.schema().tensors();
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].dtype == format::DType::kRaw) continue;
      positions_.push_back(i);
      tensors_.push_back({.name = specs[i].name,
                          .type = quant::SourceType::kF32,
                          .type_name = "F32",
                          .shape = {specs[i].shape.begin(), specs[i].shape.end()}});
    }
  }

  const std::string& name() const override { return archive_.path(); }
  const std::vector<converter::Leaf>& tensors() const override { return tensors_; }
  absl::StatusOr<std::vector<float>> Values(size_t index) const override {
    return DecodeTensor(archive_, positions_[index]);
  }

 private:
  format::Archive archive_;
  std::vector<size_t> positions_;  // of each tensor in the archive
  std::vector<converter::Leaf> tensors_;
};

}  // namespace

absl::StatusOr<std::vector<float>> DecodeTensor(const format::Archive& archive, size_t position) {
  if (position >= archive.records().size() ||
      archive.schema().tensors()[position].dtype == format::DType::kRaw) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive.path(), ": record ", position, " holds no numbers"));
  }
  if (archive.schema().tensors()[position].dtype != format::DType::kCq) {
    return archive.Floats(position);
  }
  const format::CqView view = archive.Cq(position);
  ASSIGN_OR_RETURN(const quant::Codebook codebook, quant::CodebookFor(view));
  std::vector<float> weights(view.layout.rows * view.layout.cols);
  RETURN_IF_ERROR(quant::DecodeRows(view, codebook, 0, view.layout.rows, weights));
  return weights;
}

absl::StatusOr<GoldenReport> WriteGolden(const format::Archive& archive,
                                         const std::string& target) {
  const std::string inputs[] = {archive.path()};
  RETURN_IF_ERROR(base::AtomicFile::CheckTarget(target, inputs));
  std::vector<ArraySpec> arrays;
  for (const format::TensorSpec& spec : archive.schema().tensors()) {
    if (spec.dtype == format::DType::kRaw) continue;
    arrays.push_back({spec.name, ArrayType::kF32, {spec.shape.begin(), spec.shape.end()}});
  }
  GoldenReport report{.num_tensors = arrays.size()};
  ASSIGN_OR_RETURN(const auto writer, TensorFileWriter::Create(target, std::move(arrays)));
  // The tokenizer is the last record, so the others are the first ones.
  for (size_t position = 0; position < report.num_tensors; ++position) {
    ASSIGN_OR_RETURN(const std::vector<float> values, DecodeTensor(archive, position));
    RETURN_IF_ERROR(writer->Write(BytesOf(std::span<const float>(values))));
    report.num_values += values.size();
  }
  RETURN_IF_ERROR(writer->Finish());
  return report;
}

absl::StatusOr<std::unique_ptr<NamedTensors>> OpenGolden(const std::string& path) {
  if (path.ends_with(".cact")) {
    ASSIGN_OR_RETURN(format::Archive archive, format::Archive::Open(path));
    return std::make_unique<ArchiveTensors>(std::move(archive));
  }
  ASSIGN_OR_RETURN(auto container, converter::OpenLeafContainer(path));
  return std::make_unique<ContainerTensors>(path, std::move(container));
}

}  // namespace needle::verify
