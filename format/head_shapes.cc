#include "format/head_shapes.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/endian.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "format/archive_rules.h"
#include "format/record.h"

namespace needle::format {
namespace {

constexpr float kWhistleMarker = 3246;
constexpr uint32_t kWhistleValues = 13;

// Reads the records of heads one after the other.
class HeadReader {
 public:
  HeadReader(std::span<const uint8_t> file, const Header& header, size_t first)
      : file_(file), header_(header), position_(first) {}

  absl::StatusOr<DerivedHeads> Read() {
    std::vector<HeadShape> heads;
    RETURN_IF_ERROR(RefuseWhistle());
    if (NumLeft() > 1) {
      ASSIGN_OR_RETURN(const std::vector<HeadKind> kinds, ReadManifest());
      for (const HeadKind kind : kinds) {
        ASSIGN_OR_RETURN(const HeadShape head, ReadHead(kind));
        heads.push_back(head);
      }
      RETURN_IF_ERROR(RefuseWhistle());
    }
    return DerivedHeads{std::move(heads), position_};
  }

 private:
  Generation generation() const { return header_.geometry.generation; }
  size_t NumLeft() const { return header_.num_tensors - position_; }
  Record At(size_t position) const { return RecordAt(file_, header_, position); }

  // A speech archive has the tag of Needle 3 and a marker where the heads end.
  absl::Status RefuseWhistle() const {
    if (NumLeft() == 0 || generation() != Generation::kNeedle3) return absl::OkStatus();
    const Record record = At(position_);
    const bool has_form = record.dtype == static_cast<uint8_t>(DType::kF32) && record.ndim == 1 &&
                          record.shape[0] == kWhistleValues;
    const auto end = base::CheckedAdd(record.offset, sizeof(float));
    if (!has_form || !end || *end > file_.size()) return absl::OkStatus();
    if (base::LoadLe<float>(&file_[record.offset]) != kWhistleMarker) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrFormat("record %d: the marker of a speech archive (\"Whistle\"), which is not "
                        "supported; want a Needle 3 text model",
                        position_));
  }

  absl::StatusOr<std::vector<HeadKind>> ReadManifest() {
    const Record record = At(position_);
    const TensorId id = {TensorRole::kHeadsManifest, 0};
    const std::string name(RoleName(id.role));
    // Any length will do here: the codes themselves bound it.
    const TensorSpec spec = {id, name, DType::kF16, {record.shape[0]}};
    RETURN_IF_ERROR(CheckRecord(file_, position_, spec, record));
    std::vector<HeadKind> kinds;
    uint32_t previous = 0;
    for (uint32_t i = 0; i < record.shape[0]; ++i) {
      const auto bits = base::LoadLe<uint16_t>(&file_[record.offset + 2 * uint64_t{i}]);
      const std::optional<uint32_t> code = CodeOf(bits);
      if (!code || *code <= previous) return ManifestError(name, i, bits);
      kinds.push_back(*HeadKindFromCode(generation(), *code));
      previous = *code;
    }
    if (kinds.empty()) return RecordError(position_, name, "shape [0], want a code for each head");
    ++position_;
    return kinds;
  }

  // The code that an f16 holds exactly, if it is that of a head.
  std::optional<uint32_t> CodeOf(uint16_t bits) const {
    for (uint32_t code = 1; HeadKindFromCode(generation(), code); ++code) {
      if (base::F16FromF32(static_cast<float>(code)) == bits) return code;
    }
    return std::nullopt;
  }

  absl::Status ManifestError(const std::string& name, uint32_t index, uint16_t bits) const {
    return RecordError(
        position_, name,
        absl::StrFormat("value %d is %g, want the codes of %s heads, ascending", index,
                        static_cast<double>(base::F32FromF16(bits)), GenerationName(generation())));
  }

  // Takes from each shape what no other says; CheckRecord compares the rest.
  absl::StatusOr<HeadShape> ReadHead(HeadKind kind) {
    const std::span<const TensorRole> roles = HeadRoles(generation(), kind);
    if (NumLeft() < roles.size()) {
      return absl::DataLossError(absl::StrFormat("num_tensors: %d, want at least %d for the %s",
                                                 header_.num_tensors, position_ + roles.size(),
                                                 HeadName(kind)));
    }
    HeadShape head;
    head.kind = kind;
    for (const TensorRole role : roles) {
      TakeShape(role, At(position_), head);
      ++position_;
    }
    return head;
  }

  void TakeShape(TensorRole role, const Record& record, HeadShape& head) const {
    switch (role) {
      case TensorRole::kHeadProbes:
        TakeProbes(record, head);
        break;
      case TensorRole::kHeadQuery:
        head.queries = record.shape[0];
        break;
      case TensorRole::kHeadProj:
        head.out = record.shape[0];
        break;
      default:
        break;
    }
  }

  // [P, d] in Needle 2; in Needle 3 [(L+1)*k, d], or [L+1, k, d] when it is FP16.
  void TakeProbes(const Record& record, HeadShape& head) const {
    const bool is_needle3 = generation() == Generation::kNeedle3;
    head.fp16_matrices = is_needle3 && record.dtype == static_cast<uint8_t>(DType::kF16);
    head.probes = record.shape[head.fp16_matrices ? 1 : 0];
    if (is_needle3 && !head.fp16_matrices) head.probes /= header_.geometry.num_layers + 1;
  }

  std::span<const uint8_t> file_;
  const Header& header_;
  size_t position_;
};

}  // namespace

absl::StatusOr<DerivedHeads> DeriveHeadShapes(std::span<const uint8_t> file, const Header& header,
                                              size_t first) {
  return HeadReader(file, header, first).Read();
}

}  // namespace needle::format
