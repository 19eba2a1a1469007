#include "quant/bit_map.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace needle::quant {
namespace {

using format::TensorRole;
using format::Width;

constexpr std::string_view kDefaultKey = "default";
constexpr size_t kLayerPrefix = std::string_view("layerNN.").size();
constexpr std::array kEngramMatrices = {TensorRole::kEngramTables, TensorRole::kEngramKeyProj,
                                        TensorRole::kEngramValueProj};
constexpr std::array kHeads = {format::HeadKind::kEmbedding, format::HeadKind::kConfidence,
                               format::HeadKind::kRouter, format::HeadKind::kContrastive};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The number of a key that begins with "layerNN.".
std::optional<uint32_t> LayerOf(std::string_view key) {
  if (key.size() < kLayerPrefix || !key.starts_with("layer") || key[7] != '.') return std::nullopt;
  if (!IsDigit(key[5]) || !IsDigit(key[6])) return std::nullopt;
  return static_cast<uint32_t>(key[5] - '0') * 10 + static_cast<uint32_t>(key[6] - '0');
}

// The canonical names of the input's CQ tensors, heads left out: those of single layers as well as
// those that all layers share.
std::vector<std::string> NamesOfInput(const format::Schema& schema, const InputNumbers& input) {
  std::vector<std::string> names;
  for (const format::TensorSpec& spec : schema.tensors()) {
    const TensorRole role = spec.id.role;
    if (spec.dtype != format::DType::kCq || IsHeadRole(role) || IsEngramRole(role)) continue;
    if (!IsLayerRole(role)) {
      names.push_back(spec.name);
    } else if (spec.id.index == 0) {  // every layer has the same roles
      names.push_back(AttentionKey(role));
      for (uint32_t i = 0; i < input.num_layers; ++i) names.push_back(LayerKey(i, role));
    }
  }
  for (uint32_t site = 0; site < input.num_sites; ++site) {
    for (const TensorRole role : kEngramMatrices) names.push_back(EngramKey(site, role));
  }
  return names;
}

bool NamesHead(std::string_view key) {
  return std::any_of(kHeads.begin(), kHeads.end(), [&](format::HeadKind kind) {
    const std::string_view head = format::HeadName(kind);
    return head.starts_with(key) || key.starts_with(head);
  });
}

absl::Status CheckKey(std::string_view key, const std::vector<std::string>& names) {
  // "layer" or "layer07" alone is no key of one layer, so it must not match a layer's name.
  const bool one_layer = LayerOf(key).has_value();
  const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name.starts_with(key) && LayerOf(name).has_value() == one_layer;
  });
  if (matches) return absl::OkStatus();
  if (NamesHead(key)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "bit map: key \"%s\" names a head, whose matrices are always 4-bit", std::string(key)));
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("bit map: key \"%s\" matches no quantised tensor", std::string(key)));
}

absl::Status BadEntry(std::string_view entry, std::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrFormat("bit map: entry \"%s\": %s", std::string(entry), std::string(reason)));
}

bool IsKeyCharacter(char c) {
  return IsDigit(c) || c == '_' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct Entry {
  std::string_view key;
  Width width;
};

absl::StatusOr<Entry> ParseEntry(std::string_view entry) {
  if (entry.empty()) return BadEntry(entry, "empty (stray comma), want name=width");
  const size_t equals = entry.find('=');
  if (equals == std::string_view::npos) return BadEntry(entry, "no \"=\", want name=width");
  const std::string_view key = entry.substr(0, equals);
  if (key.empty()) return BadEntry(entry, "empty key, want name=width");
  if (!std::all_of(key.begin(), key.end(), IsKeyCharacter)) {
    return BadEntry(entry, "a key of letters, digits, '_' and '.' is wanted");
  }
  const auto width = format::WidthFromText(entry.substr(equals + 1));
  if (!width) return BadEntry(entry, "the width is none of 1, 1.58, 2, 3, 4");
  return Entry{key, *width};
}

}  // namespace

std::string LayerKey(uint32_t layer, TensorRole role) {
  return absl::StrFormat("layer%02d.%s", layer, std::string(format::RoleName(role)));
}
std::string AttentionKey(TensorRole role) { return "attn." + std::string(format::RoleName(role)); }
std::string EngramKey(uint32_t site, TensorRole role) {
  return absl::StrFormat("engram%d.%s", site, std::string(format::RoleName(role)));
}

absl::StatusOr<BitMap> BitMap::Parse(std::string_view text) {
  BitMap map;
  bool has_default = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    ASSIGN_OR_RETURN(const Entry entry, ParseEntry(part));
    const bool is_default = entry.key == kDefaultKey;
    const bool known = std::any_of(map.keys_.begin(), map.keys_.end(),
                                   [&](const Key& key) { return key.name == entry.key; });
    if (known || (is_default && has_default)) return BadEntry(part, "the key is given twice");
    if (is_default) {
      map.default_ = entry.width;
      has_default = true;
    } else {
      map.keys_.push_back({std::string(entry.key), entry.width});
    }
    begin = end + 1;
  }
  if (!has_default) return absl::InvalidArgumentError("bit map: no default, want default=width");
  return map;
}

BitMap BitMap::Uniform(Width width) {
  BitMap map;
  map.default_ = width;
  return map;
}

Width BitMap::WidthOf(std::string_view layer_name, std::string_view name) const {
  const Key* best = nullptr;
  for (const Key& key : keys_) {
    const bool one_layer = LayerOf(key.name).has_value();
    if (!(one_layer ? layer_name : name).starts_with(key.name)) continue;
    const bool better =
        best == nullptr || (one_layer && !LayerOf(best->name)) ||
        (one_layer == LayerOf(best->name).has_value() && key.name.size() > best->name.size());
    if (better) best = &key;
  }
  return best == nullptr ? default_ : best->width;
}

absl::StatusOr<std::vector<Width>> BitMap::Resolve(const format::Schema& schema,
                                                   const InputNumbers& input) const {
  const std::vector<std::string> names = NamesOfInput(schema, input);
  for (const Key& key : keys_) RETURN_IF_ERROR(CheckKey(key.name, names));
  std::vector<Width> widths;
  for (const format::TensorSpec& spec : schema.tensors()) {
    const TensorRole role = spec.id.role;
    if (IsHeadRole(role) || spec.dtype != format::DType::kCq) {
      widths.push_back(Width::kCq4);
    } else if (IsLayerRole(role)) {
      widths.push_back(WidthOf(LayerKey(input.layers[spec.id.index], role), AttentionKey(role)));
    } else if (IsEngramRole(role)) {
      widths.push_back(WidthOf("", EngramKey(input.sites[spec.id.index], role)));
    } else {
      widths.push_back(WidthOf("", spec.name));
    }
  }
  return widths;
}

std::string BitMap::Text() const {
  std::string text;
  for (const Key& key : keys_) {
    text += key.name + "=" + std::string(format::WidthText(key.width)) + ",";
  }
  return text + "default=" + std::string(format::WidthText(default_));
}

}  // namespace needle::quant
