#include "converter/sentencepiece_settings.h"

#include <functional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace needle::converter {
namespace {

constexpr uint64_t kUserDefinedPiece = 4;

// One field of a message: a number (varint) or bytes (length-delimited); fixed-size fields have
// neither.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;
  std::span<const uint8_t> bytes;
};

// Protocol Buffers' wire format, as far as a .model uses it.
class WireReader {
 public:
  explicit WireReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool AtEnd() const { return next_ == bytes_.size(); }

  absl::StatusOr<Field> Next() {
    ASSIGN_OR_RETURN(const uint64_t key, Varint());
    Field field{.number = key >> 3, .value = 0, .bytes = {}};
    switch (key & 7) {
      case 0: {
        ASSIGN_OR_RETURN(field.value, Varint());
        return field;
      }
      case 1:
        RETURN_IF_ERROR(Take(8).status());
        return field;
      case 2: {
        ASSIGN_OR_RETURN(const uint64_t length, Varint());
        ASSIGN_OR_RETURN(field.bytes, Take(length));
        return field;
      }
      case 5:
        RETURN_IF_ERROR(Take(4).status());
        return field;
      default:
        return absl::DataLossError(absl::StrFormat("wire type %d, want 0, 1, 2 or 5", key & 7));
    }
  }

 private:
  absl::StatusOr<std::span<const uint8_t>> Take(uint64_t count) {
    if (count > bytes_.size() - next_) {
      return absl::DataLossError(
          absl::StrFormat("a field of %d bytes where %d are left", count, bytes_.size() - next_));
    }
    const auto taken = bytes_.subspan(next_, count);
    next_ += count;
    return taken;
  }

  absl::StatusOr<uint64_t> Varint() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      ASSIGN_OR_RETURN(const auto byte, Take(1));
      value |= uint64_t{byte[0] & 0x7FU} << shift;
      if (byte[0] < 0x80) return value;
    }
    return absl::DataLossError("a number of more than 64 bits");
  }

  std::span<const uint8_t> bytes_;
  size_t next_ = 0;
};

absl::Status ForEachField(std::span<const uint8_t> message,
                          const std::function<absl::Status(const Field&)>& visit) {
  WireReader reader(message);
  while (!reader.AtEnd()) {
    ASSIGN_OR_RETURN(const Field field, reader.Next());
    RETURN_IF_ERROR(visit(field));
  }
  return absl::OkStatus();
}

absl::Status ReadPiece(std::span<const uint8_t> message, SentencePieceSettings& settings) {
  bool is_user_defined = false;
  RETURN_IF_ERROR(ForEachField(message, [&](const Field& field) {
    if (field.number == 3) is_user_defined = field.value == kUserDefinedPiece;  // type
    return absl::OkStatus();
  }));
  settings.is_user_defined.push_back(is_user_defined);
  return absl::OkStatus();
}

absl::Status ReadTrainer(std::span<const uint8_t> message, SentencePieceSettings& settings) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 3) settings.algorithm = SentencePieceAlgorithm{field.value};
    if (field.number == 24) settings.whitespace_as_suffix = field.value != 0;
    return absl::OkStatus();
  });
}

absl::Status ReadNormalizer(std::span<const uint8_t> message, SentencePieceSettings& settings) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 1) settings.normalizer_name = {field.bytes.begin(), field.bytes.end()};
    if (field.number == 2) settings.has_normalizer_rules = !field.bytes.empty();
    if (field.number == 3) settings.add_dummy_prefix = field.value != 0;
    if (field.number == 4) settings.removes_extra_spaces = field.value != 0;
    if (field.number == 5) settings.escapes_spaces = field.value != 0;
    return absl::OkStatus();
  });
}

absl::Status ReadDenormalizer(std::span<const uint8_t> message, SentencePieceSettings& settings) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 2) settings.has_denormalizer_rules = !field.bytes.empty();
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<SentencePieceSettings> ReadSentencePieceSettings(std::span<const uint8_t> bytes) {
  SentencePieceSettings settings;
  RETURN_IF_ERROR(ForEachField(bytes, [&](const Field& field) {
    switch (field.number) {
      case 1:
        return ReadPiece(field.bytes, settings);
      case 2:
        return ReadTrainer(field.bytes, settings);
      case 3:
        return ReadNormalizer(field.bytes, settings);
      case 5:
        return ReadDenormalizer(field.bytes, settings);
      default:
        return absl::OkStatus();
    }
  }));
  return settings;
}

}  // namespace needle::converter
