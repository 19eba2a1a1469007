#include "converter/verify/tensor_file_writer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "converter/verify/zip_writer.h"

namespace needle::verify {
namespace {

struct TypeNames {
  uint64_t bytes;
  const char* npy;
  const char* safetensors;
};

const TypeNames& NamesOf(ArrayType type) {
  static constexpr TypeNames kNames[] = {
      {4, "<f4", "F32"}, {2, "<f2", "F16"}, {4, "<u4", "U32"}, {1, "|u1", "U8"}};
  return kNames[static_cast<size_t>(type)];
}

absl::StatusOr<uint64_t> ArrayBytes(const ArraySpec& array) {
  std::optional<uint64_t> bytes = ArrayTypeBytes(array.type);
  for (const uint64_t dimension : array.shape) {
    if (bytes) bytes = base::CheckedMul(*bytes, dimension);
  }
  if (!bytes) {
    return absl::InvalidArgumentError(absl::StrCat(array.name, ": its size exceeds 64 bits"));
  }
  return *bytes;
}

// The forms differ in what stands before an array's bytes; order and sizes are checked here.
class OrderedWriter : public TensorFileWriter {
 public:
  OrderedWriter(base::AtomicFile file, std::vector<ArraySpec> arrays, std::vector<uint64_t> sizes)
      : file_(std::move(file)), arrays_(std::move(arrays)), sizes_(std::move(sizes)) {}

  absl::Status Write(std::span<const uint8_t> bytes) override {
    if (next_ == arrays_.size() || bytes.size() != sizes_[next_]) {
      return absl::InvalidArgumentError(absl::StrCat(
          file_.target(), ": array ", next_, ": ", bytes.size(), " bytes, want ",
          next_ == arrays_.size() ? "none"
                                  : absl::StrCat(sizes_[next_], " for ", arrays_[next_].name)));
    }
    RETURN_IF_ERROR(WriteNext(arrays_[next_], bytes));
    ++next_;
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (next_ != arrays_.size()) {
      return absl::InternalError(
          absl::StrCat(file_.target(), ": array ", arrays_[next_].name, " was not written"));
    }
    RETURN_IF_ERROR(WriteEnd());
    return file_.Commit();
  }

  virtual absl::Status WriteStart() { return absl::OkStatus(); }

 protected:
  virtual absl::Status WriteNext(const ArraySpec& array, std::span<const uint8_t> bytes) = 0;
  virtual absl::Status WriteEnd() { return absl::OkStatus(); }

  absl::Status AppendText(std::string_view text) {
    return file_.Append(BytesOf(std::span<const char>(text)));
  }

  base::AtomicFile file_;
  std::vector<ArraySpec> arrays_;
  std::vector<uint64_t> sizes_;

 private:
  size_t next_ = 0;
};

class SafetensorsWriter final : public OrderedWriter {
 public:
  using OrderedWriter::OrderedWriter;

  absl::Status WriteStart() override {
    base::Json header = base::Json::object();
    uint64_t offset = 0;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      header[arrays_[i].name] = {{"dtype", NamesOf(arrays_[i].type).safetensors},
                                 {"shape", arrays_[i].shape},
                                 {"data_offsets", {offset, offset + sizes_[i]}}};
      offset += sizes_[i];
    }
    std::string text = base::DumpJson(header);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::string length(8, '\0');
    base::StoreLe<uint64_t>(length.data(), text.size());
    return AppendText(length + text);
  }

 protected:
  absl::Status WriteNext(const ArraySpec&, std::span<const uint8_t> bytes) override {
    return file_.Append(bytes);
  }
};

class NpyWriter final : public OrderedWriter {
 public:
  using OrderedWriter::OrderedWriter;

 protected:
  absl::Status WriteNext(const ArraySpec& array, std::span<const uint8_t> bytes) override {
    RETURN_IF_ERROR(AppendText(NpyHeader(array)));
    return file_.Append(bytes);
  }
};

class NpzWriter final : public OrderedWriter {
 public:
  using OrderedWriter::OrderedWriter;

 protected:
  absl::Status WriteNext(const ArraySpec& array, std::span<const uint8_t> bytes) override {
    const std::string header = NpyHeader(array);
    return zip_.Add(file_, absl::StrCat(array.name, ".npy"),
                    {BytesOf(std::span<const char>(header)), bytes});
  }
  absl::Status WriteEnd() override { return zip_.Finish(file_); }

 private:
  ZipWriter zip_;
};

template <typename Writer>
absl::StatusOr<std::unique_ptr<TensorFileWriter>> Start(const std::string& target,
                                                        std::vector<ArraySpec> arrays,
                                                        std::vector<uint64_t> sizes) {
  ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(target));
  auto writer = std::make_unique<Writer>(std::move(file), std::move(arrays), std::move(sizes));
  RETURN_IF_ERROR(writer->WriteStart());
  return writer;
}

}  // namespace

uint64_t ArrayTypeBytes(ArrayType type) { return NamesOf(type).bytes; }

std::string ArrayTypeName(ArrayType type) { return NamesOf(type).safetensors; }

std::string NpyHeader(const ArraySpec& array) {
  const std::string comma = array.shape.size() == 1 ? "," : "";
  std::string text =
      absl::StrCat("{'descr': '", NamesOf(array.type).npy, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(array.shape, ", "), comma, "), }");
  constexpr size_t kPrefix = 10;
  text.resize((kPrefix + text.size() + 64) / 64 * 64 - kPrefix - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00\x00\x00", kPrefix);
  base::StoreLe<uint16_t>(header.data() + 8, static_cast<uint16_t>(text.size()));
  return header + text;
}

absl::StatusOr<std::unique_ptr<TensorFileWriter>> TensorFileWriter::Create(
    const std::string& target, std::vector<ArraySpec> arrays) {
  std::vector<uint64_t> sizes;
  for (const ArraySpec& array : arrays) {
    ASSIGN_OR_RETURN(sizes.emplace_back(), ArrayBytes(array));
  }
  if (target.ends_with(".safetensors")) {
    return Start<SafetensorsWriter>(target, std::move(arrays), std::move(sizes));
  }
  if (target.ends_with(".npz")) {
    return Start<NpzWriter>(target, std::move(arrays), std::move(sizes));
  }
  if (target.ends_with(".npy") && arrays.size() == 1) {
    return Start<NpyWriter>(target, std::move(arrays), std::move(sizes));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(target, ": want a name that ends in .safetensors or .npz",
                   arrays.size() == 1 ? " or .npy" : ", which hold several arrays"));
}

}  // namespace needle::verify
