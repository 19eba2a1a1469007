#include "quant/bit_map_of.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "quant/bit_map.h"

namespace needle::quant {
namespace {

using format::Width;

// Tensors that a key without a layer's number names together: all layers of attn.q_proj, or one
// tensor.
struct Family {
  std::string group;  // a prefix of all names that may share a key
  std::string name;
  format::TensorRole role;
  std::vector<Width> widths;  // of layer 0, 1, ...; one element when it has no layers
};

uint32_t NumberOf(uint32_t index, std::span<const uint32_t> numbers) {
  return numbers.empty() ? index : numbers[index];
}

Family NewFamily(format::TensorId id, std::span<const uint32_t> sites) {
  const std::string role(format::RoleName(id.role));
  if (format::IsLayerRole(id.role)) return {"attn", AttentionKey(id.role), id.role, {}};
  if (format::IsEngramRole(id.role)) {
    return {"engram", EngramKey(NumberOf(id.index, sites), id.role), id.role, {}};
  }
  return {role.starts_with("mhc") ? "mhc" : role, role, id.role, {}};
}

// In file order of their first tensors.
std::vector<Family> Families(const format::Schema& schema, std::span<const Width> widths,
                             std::span<const uint32_t> sites) {
  std::vector<Family> families;
  for (size_t i = 0; i < schema.tensors().size(); ++i) {
    const format::TensorSpec& spec = schema.tensors()[i];
    if (spec.dtype != format::DType::kCq || format::IsHeadRole(spec.id.role)) continue;
    Family family = NewFamily(spec.id, sites);
    auto known = std::find_if(families.begin(), families.end(),
                              [&](const Family& other) { return other.name == family.name; });
    if (known == families.end()) known = families.insert(families.end(), std::move(family));
    known->widths.push_back(widths[i]);
  }
  return families;
}

// The most frequent one, the narrower on a tie.
Width MostFrequent(std::span<const Width> widths) {
  Width best = Width::kCq2;
  std::ptrdiff_t most = 0;
  for (const Width width : format::kAllWidths) {
    const auto count = std::count(widths.begin(), widths.end(), width);
    if (count > most) best = width;
    most = std::max(most, count);
  }
  return best;
}

std::string EntryText(std::string_view key, Width width) {
  return absl::StrFormat("%s=%s", std::string(key), std::string(format::WidthText(width)));
}

// Keys of the families of one group.
void AddGroup(std::span<const Family> families, Width fallback, std::span<const uint32_t> layers,
              std::vector<std::string>& entries) {
  std::vector<Width> common;
  for (const Family& family : families) common.push_back(MostFrequent(family.widths));
  if (std::all_of(common.begin(), common.end(), [&](Width w) { return w == common[0]; })) {
    if (common[0] != fallback) entries.push_back(EntryText(families[0].group, common[0]));
  } else {
    for (size_t i = 0; i < families.size(); ++i) {
      if (common[i] != fallback) entries.push_back(EntryText(families[i].name, common[i]));
    }
  }
  for (size_t i = 0; i < families.size(); ++i) {
    for (size_t layer = 0; layer < families[i].widths.size(); ++layer) {
      if (families[i].widths[layer] == common[i]) continue;
      const uint32_t number = NumberOf(static_cast<uint32_t>(layer), layers);
      entries.push_back(EntryText(LayerKey(number, families[i].role), families[i].widths[layer]));
    }
  }
}

}  // namespace

std::string BitMapTextOf(const format::Schema& schema, std::span<const Width> widths,
                         std::span<const uint32_t> layers, std::span<const uint32_t> sites) {
  const std::vector<Family> families = Families(schema, widths, sites);
  std::vector<Width> common;
  for (const Family& family : families) common.push_back(MostFrequent(family.widths));
  const Width fallback = MostFrequent(common);
  std::vector<std::string> entries;
  for (size_t begin = 0; begin < families.size();) {
    size_t end = begin;
    while (end < families.size() && families[end].group == families[begin].group) ++end;
    AddGroup(std::span(families).subspan(begin, end - begin), fallback, layers, entries);
    begin = end;
  }
  entries.push_back(EntryText("default", fallback));
  return absl::StrJoin(entries, ",");
}

}  // namespace needle::quant
