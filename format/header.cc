#include "format/header.h"

#include <array>
#include <bit>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/endian.h"
#include "base/status_macros.h"

namespace needle::format {
namespace {

constexpr uint32_t kFieldBytes = 4;

enum class Print : uint8_t { kDecimal, kHex, kF32 };

// A field: its name, how its four bytes are read from and stored into a Header (`set` refuses what
// is not 0 in an entry that is not used), the most it may be, and how it is shown.
struct Row {
  std::string_view name;
  uint32_t (*get)(const Header& header);
  bool (*set)(Header& header, uint32_t word);
  uint32_t most = UINT32_MAX;
  Print print = Print::kDecimal;
};

template <auto kMember>
constexpr Row Number(std::string_view name) {
  return {name, [](const Header& header) { return header.geometry.*kMember; },
          [](Header& header, uint32_t word) {
            header.geometry.*kMember = word;
            return true;
          }};
}

template <auto kMember>
constexpr Row OfHeader(std::string_view name) {
  return {name, [](const Header& header) { return header.*kMember; },
          [](Header& header, uint32_t word) {
            header.*kMember = word;
            return true;
          }};
}

// The number of entries that an array field uses. Stands before its entries and sizes the vector.
template <auto kMember>
constexpr Row Count(std::string_view name, uint32_t most) {
  return {
      name,
      [](const Header& header) { return static_cast<uint32_t>((header.geometry.*kMember).size()); },
      [](Header& header, uint32_t word) {
        (header.geometry.*kMember).resize(word);
        return true;
      },
      most};
}

// An entry of an array field; 0 from the count on.
template <auto kMember, size_t kIndex>
constexpr Row Entry(std::string_view name) {
  return {name,
          [](const Header& header) {
            const auto& entries = header.geometry.*kMember;
            return kIndex < entries.size() ? entries[kIndex] : 0;
          },
          [](Header& header, uint32_t word) {
            auto& entries = header.geometry.*kMember;
            if (kIndex < entries.size()) entries[kIndex] = word;
            return kIndex < entries.size() || word == 0;
          }};
}

template <size_t kIndex>
constexpr Row Order(std::string_view name) {
  return Entry<&Geometry::engram_orders, kIndex>(name);
}

template <size_t kIndex>
constexpr Row Site(std::string_view name) {
  return Entry<&Geometry::engram_sites, kIndex>(name);
}

// 32 bits of global_mask, from bit kShift on.
template <uint32_t kShift>
constexpr Row GlobalMask(std::string_view name) {
  return {name,
          [](const Header& header) {
            return static_cast<uint32_t>(header.geometry.global_mask >> kShift);
          },
          [](Header& header, uint32_t word) {
            header.geometry.global_mask |= uint64_t{word} << kShift;
            return true;
          }};
}

constexpr uint32_t TagOf(Generation generation) {
  return generation == Generation::kNeedle2 ? kTagNeedle2 : kTagNeedle3;
}

constexpr Row kTag = {"tag", [](const Header& header) { return TagOf(header.geometry.generation); },
                      [](Header&, uint32_t) { return true; },  // Read before any field.
                      UINT32_MAX, Print::kHex};
constexpr Row kRopeTheta = {
    "rope_theta",
    [](const Header& header) { return std::bit_cast<uint32_t>(header.geometry.rope_theta); },
    [](Header& header, uint32_t word) {
      header.geometry.rope_theta = std::bit_cast<float>(word);
      return true;
    },
    UINT32_MAX, Print::kF32};
// Needle 2 has one size for the heads of q, k and v.
constexpr Row kHeadDim = {"head_dim",
                          [](const Header& header) { return header.geometry.qk_head_dim; },
                          [](Header& header, uint32_t word) {
                            header.geometry.qk_head_dim = word;
                            header.geometry.v_head_dim = word;
                            return true;
                          }};
// Needle 2's logits cover the whole vocabulary, which its Geometry says in out_vocab.
constexpr Row kNeedle2Vocab = {"vocab", [](const Header& header) { return header.geometry.vocab; },
                               [](Header& header, uint32_t word) {
                                 header.geometry.vocab = word;
                                 header.geometry.out_vocab = word;
                                 return true;
                               }};

constexpr auto kNeedle3Rows = std::to_array<Row>({
    kTag,
    OfHeader<&Header::num_tensors>("num_tensors"),
    OfHeader<&Header::codebook_len>("codebook_len"),
    Number<&Geometry::kv_window>("kv_window"),
    Number<&Geometry::kv_bits>("kv_bits"),
    Number<&Geometry::vocab>("vocab"),
    Number<&Geometry::out_vocab>("out_vocab"),
    Number<&Geometry::d_model>("d_model"),
    Number<&Geometry::num_heads>("num_heads"),
    Number<&Geometry::num_kv_heads>("num_kv_heads"),
    Number<&Geometry::num_layers>("num_layers"),
    Number<&Geometry::qk_head_dim>("qk_head_dim"),
    Number<&Geometry::v_head_dim>("v_head_dim"),
    Number<&Geometry::max_seq_len>("max_seq_len"),
    Number<&Geometry::hada_n>("hada_n"),
    Number<&Geometry::mhc_lanes>("mhc_lanes"),
    Number<&Geometry::sliding_window>("sliding_window"),
    GlobalMask<0>("global_mask_lo"),
    GlobalMask<32>("global_mask_hi"),
    Number<&Geometry::qkv_conv_taps>("qkv_conv_taps"),
    Number<&Geometry::engram_slots>("engram_slots"),
    Number<&Geometry::engram_sub_dim>("engram_sub_dim"),
    Number<&Geometry::num_engram_tables>("num_engram_tables"),
    Number<&Geometry::engram_conv_taps>("engram_conv_taps"),
    Number<&Geometry::engram_conv_dilation>("engram_conv_dilation"),
    Number<&Geometry::engram_seed_heads>("engram_seed_heads"),
    Count<&Geometry::engram_orders>("num_engram_orders", kMaxEngramOrders),
    Order<0>("engram_orders[0]"),
    Order<1>("engram_orders[1]"),
    Order<2>("engram_orders[2]"),
    Order<3>("engram_orders[3]"),
    Count<&Geometry::engram_sites>("num_engram_sites", MaxEngramSites(Generation::kNeedle3)),
    Site<0>("engram_sites[0]"),
    Site<1>("engram_sites[1]"),
    Site<2>("engram_sites[2]"),
    Site<3>("engram_sites[3]"),
    Site<4>("engram_sites[4]"),
    Site<5>("engram_sites[5]"),
    Site<6>("engram_sites[6]"),
    Site<7>("engram_sites[7]"),
    Site<8>("engram_sites[8]"),
    Site<9>("engram_sites[9]"),
    Site<10>("engram_sites[10]"),
    Site<11>("engram_sites[11]"),
    Site<12>("engram_sites[12]"),
    Site<13>("engram_sites[13]"),
    Site<14>("engram_sites[14]"),
    Site<15>("engram_sites[15]"),
    kRopeTheta,
});

constexpr auto kNeedle2Rows = std::to_array<Row>({
    kTag,
    OfHeader<&Header::num_tensors>("num_tensors"),
    OfHeader<&Header::codebook_len>("codebook_len"),
    Number<&Geometry::kv_window>("kv_window"),
    Number<&Geometry::kv_bits>("kv_bits"),
    kNeedle2Vocab,
    Number<&Geometry::d_model>("d_model"),
    Number<&Geometry::num_heads>("num_heads"),
    Number<&Geometry::num_kv_heads>("num_kv_heads"),
    Number<&Geometry::num_layers>("num_layers"),
    kHeadDim,
    Number<&Geometry::max_seq_len>("max_seq_len"),
    Number<&Geometry::hada_n>("hada_n"),
    Number<&Geometry::mhc_lanes>("mhc_lanes"),
    Number<&Geometry::engram_slots>("engram_slots"),
    Number<&Geometry::engram_sub_dim>("engram_sub_dim"),
    Number<&Geometry::num_engram_tables>("num_engram_tables"),
    Number<&Geometry::engram_conv_taps>("engram_conv_taps"),
    Number<&Geometry::engram_conv_dilation>("engram_conv_dilation"),
    Count<&Geometry::engram_orders>("num_engram_orders", kMaxEngramOrders),
    Order<0>("engram_orders[0]"),
    Order<1>("engram_orders[1]"),
    Order<2>("engram_orders[2]"),
    Order<3>("engram_orders[3]"),
    Count<&Geometry::engram_sites>("num_engram_sites", MaxEngramSites(Generation::kNeedle2)),
    Site<0>("engram_sites[0]"),
    Site<1>("engram_sites[1]"),
    Site<2>("engram_sites[2]"),
    Site<3>("engram_sites[3]"),
    kRopeTheta,
});

template <size_t kSize>
constexpr std::array<HeaderField, kSize> FieldsOf(const std::array<Row, kSize>& rows) {
  std::array<HeaderField, kSize> fields{};
  for (uint32_t i = 0; i < kSize; ++i)
    fields[i] = {rows[i].name, i * kFieldBytes, rows[i].print == Print::kF32};
  return fields;
}

constexpr auto kNeedle3Fields = FieldsOf(kNeedle3Rows);
constexpr auto kNeedle2Fields = FieldsOf(kNeedle2Rows);
static_assert(kNeedle3Fields.size() == 49 && kNeedle2Fields.size() == 30);

std::span<const Row> RowsOf(Generation generation) {
  if (generation == Generation::kNeedle2) return kNeedle2Rows;
  return kNeedle3Rows;
}

absl::StatusOr<Generation> GenerationFromTag(uint32_t tag) {
  switch (tag) {
    case kTagNeedle3:
      return Generation::kNeedle3;
    case kTagNeedle2:
      return Generation::kNeedle2;
    case kTagNeedle2Old:
      return absl::UnimplementedError(absl::StrFormat(
          "tag: 0x%08X, a Needle 2 archive written by an older package; rebuild it from its "
          "checkpoint",
          tag));
    default:
      return absl::DataLossError(
          absl::StrFormat("not a .cact archive: tag 0x%08X, want 0x%08X (Needle 3) or 0x%08X "
                          "(Needle 2)",
                          tag, kTagNeedle3, kTagNeedle2));
  }
}

absl::Status ReadFields(std::span<const uint8_t> bytes, Header& header) {
  size_t offset = 0;
  for (const Row& row : RowsOf(header.geometry.generation)) {
    const auto word = base::LoadLe<uint32_t>(&bytes[offset]);
    if (word > row.most) {
      return absl::DataLossError(
          absl::StrFormat("%s: %d, want at most %d", row.name, word, row.most));
    }
    if (!row.set(header, word)) {
      return absl::DataLossError(
          absl::StrFormat("%s: %d, want 0, as the entry is not used", row.name, word));
    }
    offset += kFieldBytes;
  }
  return absl::OkStatus();
}

std::string FieldText(const Row& row, uint32_t word) {
  switch (row.print) {
    case Print::kDecimal:
      return std::to_string(word);
    case Print::kHex:
      return absl::StrFormat("0x%08X", word);
    case Print::kF32:
      return absl::StrFormat("%.9g", static_cast<double>(std::bit_cast<float>(word)));
  }
  return "";
}

}  // namespace

std::span<const HeaderField> HeaderFields(Generation generation) {
  if (generation == Generation::kNeedle2) return kNeedle2Fields;
  return kNeedle3Fields;
}

uint32_t HeaderBytes(Generation generation) {
  return static_cast<uint32_t>(HeaderFields(generation).size()) * kFieldBytes;
}

bool HasArchiveTag(std::span<const uint8_t> bytes) {
  return bytes.size() >= kFieldBytes &&
         !absl::IsDataLoss(GenerationFromTag(base::LoadLe<uint32_t>(bytes.data())).status());
}

absl::StatusOr<Header> ParseHeader(std::span<const uint8_t> bytes) {
  if (bytes.size() < kFieldBytes) {
    return absl::DataLossError(
        absl::StrFormat("not a .cact archive: %d bytes, too short for a tag", bytes.size()));
  }
  Header header;
  ASSIGN_OR_RETURN(header.geometry.generation,
                   GenerationFromTag(base::LoadLe<uint32_t>(bytes.data())));
  const uint32_t wanted = HeaderBytes(header.geometry.generation);
  if (bytes.size() < wanted) {
    return absl::DataLossError(
        absl::StrFormat("header: the file has %d bytes, want at least %d", bytes.size(), wanted));
  }
  RETURN_IF_ERROR(ReadFields(bytes, header));
  RETURN_IF_ERROR(CheckGeometry(header.geometry));
  return header;
}

std::vector<uint8_t> SerializeHeader(const Header& header) {
  std::vector<uint8_t> bytes(HeaderBytes(header.geometry.generation));
  size_t offset = 0;
  for (const Row& row : RowsOf(header.geometry.generation)) {
    base::StoreLe(&bytes[offset], row.get(header));
    offset += kFieldBytes;
  }
  return bytes;
}

std::vector<std::string> HeaderValues(const Header& header) {
  std::vector<std::string> values;
  for (const Row& row : RowsOf(header.geometry.generation)) {
    values.push_back(FieldText(row, row.get(header)));
  }
  return values;
}

}  // namespace needle::format
