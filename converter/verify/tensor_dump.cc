#include "converter/verify/tensor_dump.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "converter/verify/golden_file.h"
#include "quant/pack.h"

namespace needle::verify {
namespace {

absl::StatusOr<DumpedArray> Values(const format::Archive& archive, size_t position) {
  const format::TensorSpec& spec = archive.schema().tensors()[position];
  if (spec.dtype == format::DType::kRaw) {
    const std::span<const uint8_t> blob = archive.Blob(position);
    return DumpedArray{{spec.name, ArrayType::kU8, {blob.size()}}, {blob.begin(), blob.end()}};
  }
  ASSIGN_OR_RETURN(const std::vector<float> values, DecodeTensor(archive, position));
  const std::span<const uint8_t> bytes = BytesOf(std::span<const float>(values));
  return DumpedArray{{spec.name, ArrayType::kF32, {spec.shape.begin(), spec.shape.end()}},
                     {bytes.begin(), bytes.end()}};
}

DumpedArray Indices(const format::CqView& view, const std::string& name) {
  const uint64_t cols = view.layout.padded_cols, row_bytes = view.layout.row_bytes;
  DumpedArray array{{name, ArrayType::kU8, {view.layout.rows, cols}},
                    std::vector<uint8_t>(view.layout.rows * cols)};
  for (uint64_t row = 0; row < view.layout.rows; ++row) {
    quant::UnpackRow(view.width, view.indices.subspan(row * row_bytes, row_bytes),
                     std::span(array.bytes).subspan(row * cols, cols));
  }
  return array;
}

std::string NumberText(ArrayType type, const uint8_t* bytes) {
  if (type == ArrayType::kU8) return absl::StrCat(*bytes);
  if (type == ArrayType::kU32) return absl::StrCat(base::LoadLe<uint32_t>(bytes));
  const float value = type == ArrayType::kF16 ? base::F32FromF16(base::LoadLe<uint16_t>(bytes))
                                              : base::LoadLe<float>(bytes);
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
}

}  // namespace

absl::StatusOr<DumpedArray> DumpTensor(const format::Archive& archive, const std::string& name,
                                       DumpPart part) {
  const auto position = archive.schema().FindName(name);
  if (!position) {
    return absl::NotFoundError(
        absl::StrCat(archive.path(), ": no tensor ", name, "; inspect -v lists those that it has"));
  }
  if (part == DumpPart::kValues) return Values(archive, *position);
  if (archive.schema().tensors()[*position].dtype != format::DType::kCq) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive.path(), ": ", name, " is not quantised: no indices and norms"));
  }
  const format::CqView view = archive.Cq(*position);
  if (part == DumpPart::kIndices) return Indices(view, name);
  return DumpedArray{{name, ArrayType::kF16, {view.layout.rows, view.layout.groups}},
                     {view.norms.begin(), view.norms.end()}};
}

void WriteCsv(const DumpedArray& array, const std::function<void(std::string_view)>& write) {
  const uint64_t value_bytes = ArrayTypeBytes(array.spec.type);
  const uint64_t values = array.bytes.size() / value_bytes;
  const uint64_t cols =
      array.spec.shape.empty() ? 1 : std::max<uint64_t>(array.spec.shape.back(), 1);
  for (uint64_t start = 0; start < values; start += cols) {
    std::string line;
    for (uint64_t i = start; i < start + cols; ++i) {
      absl::StrAppend(&line, i == start ? "" : ",",
                      NumberText(array.spec.type, &array.bytes[i * value_bytes]));
    }
    write(line + "\n");
  }
}

absl::Status WriteDump(const DumpedArray& array, const std::string& target,
                       const std::string& input) {
  const std::string inputs[] = {input};
  RETURN_IF_ERROR(base::AtomicFile::CheckTarget(target, inputs));
  if (target.ends_with(".csv")) {
    ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(target));
    absl::Status status;
    WriteCsv(array, [&](std::string_view line) {
      if (status.ok()) status = file.Append(BytesOf(std::span<const char>(line)));
    });
    RETURN_IF_ERROR(status);
    return file.Commit();
  }
  ASSIGN_OR_RETURN(const auto writer, TensorFileWriter::Create(target, {array.spec}));
  RETURN_IF_ERROR(writer->Write(array.bytes));
  return writer->Finish();
}

}  // namespace needle::verify
