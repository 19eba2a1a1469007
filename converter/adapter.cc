#include "converter/adapter.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/half.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "converter/leaf_container.h"
#include "converter/leaf_view.h"

namespace needle::converter {
namespace {

constexpr std::string_view kPrefix = "lora/";

// All values of a factor in row-major order. DataLoss: not of a floating-point type, not a matrix
// or a stack of them, or not finite.
absl::StatusOr<std::vector<float>> ReadFactor(const LeafContainer& container, size_t index) {
  const Leaf& leaf = container.leaves()[index];
  if (!leaf.type) {
    return absl::DataLossError(
        absl::StrFormat("%s: type %s, want a floating-point one", leaf.name, leaf.type_name));
  }
  if (leaf.shape.size() != 2 && leaf.shape.size() != 3) {
    return absl::DataLossError(absl::StrFormat("%s: shape %s, want a matrix for each layer",
                                               leaf.name, LeafShapeText(leaf.shape)));
  }
  ASSIGN_OR_RETURN(const LeafData data, container.Data(index));
  LeafBinding all;
  for (uint32_t axis = 0; axis < leaf.shape.size(); ++axis) all.axes.push_back({axis, {}});
  const LeafView view(leaf, all);
  std::vector<float> values(view.rows() * view.cols());
  view.Read(data, 0, view.rows(), values);
  const auto bad =
      std::find_if_not(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  if (bad == values.end()) return values;
  return absl::DataLossError(absl::StrFormat("%s: value %d is %g, want finite values", leaf.name,
                                             bad - values.begin(), *bad));
}

absl::Status CheckFactors(const LoraPair& pair) {
  const size_t rank = pair.a.size();
  if (rank == pair.b.size() && pair.a[rank - 1] == pair.b[rank - 2] &&
      (rank == 2 || pair.a[0] == pair.b[0])) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrFormat("%s: A is %s and B is %s, want [layers, in, r] and "
                      "[layers, r, out]",
                      pair.path, LeafShapeText(pair.a), LeafShapeText(pair.b)));
}

absl::StatusOr<LoraPair> ReadPair(const LeafContainer& container, const std::string& path) {
  const std::string name = absl::StrCat(std::string(kPrefix), path);
  const auto a = FindLeaf(container.leaves(), absl::StrCat(name, "/A"));
  const auto b = FindLeaf(container.leaves(), absl::StrCat(name, "/B"));
  if (!a || !b) {
    return absl::DataLossError(absl::StrFormat("%s has only a factor %s", path, a ? "A" : "B"));
  }
  LoraPair pair{.path = path,
                .a = container.leaves()[*a].shape,
                .b = container.leaves()[*b].shape,
                .a_values = {},
                .b_values = {}};
  ASSIGN_OR_RETURN(pair.a_values, ReadFactor(container, *a));
  ASSIGN_OR_RETURN(pair.b_values, ReadFactor(container, *b));
  RETURN_IF_ERROR(CheckFactors(pair));
  return pair;
}

absl::StatusOr<std::vector<LoraPair>> ReadPairs(const LeafContainer& container) {
  std::vector<std::string> paths;
  for (const Leaf& leaf : container.leaves()) {
    absl::string_view path = leaf.name;
    if (!absl::ConsumePrefix(&path, base::AbslView(kPrefix)) ||
        !(absl::ConsumeSuffix(&path, "/A") || absl::ConsumeSuffix(&path, "/B"))) {
      return absl::DataLossError(
          absl::StrFormat("tensor \"%s\", want names lora/LEAF/A and lora/LEAF/B", leaf.name));
    }
    if (paths.empty() || paths.back() != path) paths.emplace_back(path);
  }
  std::vector<LoraPair> pairs;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(LoraPair pair, ReadPair(container, path));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

absl::StatusOr<float> ReadScale(const LeafContainer& container) {
  ASSIGN_OR_RETURN(const auto scale, container.Metadata("scale"));
  if (!scale) return absl::DataLossError("no scale in its metadata");
  if (!scale->is_number()) {
    return absl::DataLossError(absl::StrCat("scale ", base::DumpJson(*scale), ", want a number"));
  }
  const auto value = static_cast<float>(scale->get<double>());
  if (std::isfinite(value)) return value;
  return absl::DataLossError(absl::StrCat("scale ", base::DumpJson(*scale), ", want a finite f32"));
}

absl::Status CheckRank(const LeafContainer& container, const std::vector<LoraPair>& pairs) {
  ASSIGN_OR_RETURN(const auto rank, container.Metadata("rank"));
  if (!rank || rank->is_null()) return absl::OkStatus();
  for (const LoraPair& pair : pairs) {
    if (*rank == base::Json(pair.rank())) continue;
    return absl::DataLossError(
        absl::StrFormat("%s: A is %s and B is %s, but the metadata says rank %s", pair.path,
                        LeafShapeText(pair.a), LeafShapeText(pair.b), base::DumpJson(*rank)));
  }
  return absl::OkStatus();
}

absl::Status CheckEffect(const std::vector<LoraPair>& pairs, float scale) {
  if (pairs.empty()) return absl::DataLossError("holds no factors");
  const auto is_zero = [](const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float v) { return v == 0; });
  };
  const bool changes = std::any_of(pairs.begin(), pairs.end(), [&](const LoraPair& pair) {
    return !is_zero(pair.a_values) && !is_zero(pair.b_values);
  });
  if (changes && scale != 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "changes nothing: %s", scale == 0 ? "its scale is 0" : "every product of its factors is 0"));
}

absl::Status RefuseLanguages(const LeafContainer& container) {
  ASSIGN_OR_RETURN(const auto languages, container.Metadata("languages"));
  if (!languages || languages->is_null()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("languages ", base::DumpJson(*languages),
                                               ": adapters that add languages are not supported"));
}

// The shape of the leaf that a pair changes.
std::vector<uint64_t> LeafShape(const LoraPair& pair) {
  std::vector<uint64_t> shape = pair.a;
  shape.back() = pair.b.back();
  return shape;
}

}  // namespace

float LoraPair::Product(uint64_t leaf_index) const {
  const uint64_t num_out = b.back();
  const uint64_t num_in = a[a.size() - 2];
  const uint64_t out = leaf_index % num_out;
  const uint64_t row = leaf_index / num_out;  // layer * num_in + in
  const uint64_t layer = row / num_in;
  float sum = 0;
  for (uint64_t r = 0; r < rank(); ++r) {
    sum += a_values[row * rank() + r] * b_values[(layer * rank() + r) * num_out + out];
  }
  return sum;
}

absl::StatusOr<Adapter> Adapter::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const auto container, OpenLeafContainer(path));
  const auto read = [&]() -> absl::StatusOr<Adapter> {
    Adapter adapter;
    adapter.path_ = path;
    RETURN_IF_ERROR(RefuseLanguages(*container));
    ASSIGN_OR_RETURN(adapter.scale_, ReadScale(*container));
    ASSIGN_OR_RETURN(adapter.pairs_, ReadPairs(*container));
    RETURN_IF_ERROR(CheckRank(*container, adapter.pairs_));
    RETURN_IF_ERROR(CheckEffect(adapter.pairs_, adapter.scale_));
    return adapter;
  };
  auto adapter = read();
  if (adapter.ok() || absl::StartsWith(adapter.status().message(), path)) return adapter;
  return base::WithContext(adapter.status(), path);
}

absl::Status Adapter::CheckAgainst(const std::vector<Leaf>& leaves) const {
  for (const LoraPair& pair : pairs_) {
    const auto index = FindLeaf(leaves, pair.path);
    if (!index) {
      return absl::DataLossError(
          absl::StrFormat("%s: the checkpoint has no leaf \"%s\" to change", path_, pair.path));
    }
    if (leaves[*index].shape == LeafShape(pair)) continue;
    return absl::DataLossError(absl::StrFormat(
        "%s: %s: A %s times B %s does not fit the checkpoint's leaf, %s", path_, pair.path,
        LeafShapeText(pair.a), LeafShapeText(pair.b), LeafShapeText(leaves[*index].shape)));
  }
  return absl::OkStatus();
}

const LoraPair* Adapter::Find(std::string_view leaf_path) const {
  const auto found = std::find_if(pairs_.begin(), pairs_.end(),
                                  [&](const LoraPair& pair) { return pair.path == leaf_path; });
  return found == pairs_.end() ? nullptr : &*found;
}

double MergedValue(quant::SourceType type, double weight, float product, float scale) {
  const float change = product * scale;
  // Sums of two f16 or bf16 values may be rounded to f32 first: that has more than twice the
  // digits.
  const auto sum = [&](float rounded_change) {
    return static_cast<float>(weight) + rounded_change;
  };
  switch (type) {
    case quant::SourceType::kF16: {
      const auto round = [](float v) { return base::F32FromF16(base::F16FromF32(v)); };
      return static_cast<double>(round(sum(round(change))));
    }
    case quant::SourceType::kBf16: {
      const auto round = [](float v) { return base::F32FromBf16(base::Bf16FromF32(v)); };
      return static_cast<double>(round(sum(round(change))));
    }
    case quant::SourceType::kF32:
      return static_cast<double>(sum(change));
    case quant::SourceType::kF64:
      break;
  }
  return weight + static_cast<double>(change);
}

}  // namespace needle::converter
