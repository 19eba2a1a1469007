// CheckGeometry: "What makes a file invalid", "geometry that cannot run".

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/checked.h"
#include "base/status_macros.h"
#include "format/geometry.h"

namespace needle::format {
namespace {

constexpr uint32_t kLargestPowerOfTwo = uint32_t{1} << 31;

absl::Status FieldError(std::string_view field, std::string_view found, std::string_view wanted) {
  return absl::DataLossError(absl::StrFormat("%s: %s, want %s", field, found, wanted));
}

absl::Status FieldError(std::string_view field, uint64_t found, std::string_view wanted) {
  return FieldError(field, std::to_string(found), wanted);
}

std::string_view QkHeadDimName(const Geometry& geometry) {
  return geometry.generation == Generation::kNeedle2 ? "head_dim" : "qk_head_dim";
}

struct NamedValue {
  std::string_view field;
  uint32_t value;
};

absl::Status CheckNoneZero(std::initializer_list<NamedValue> dimensions) {
  for (const auto& [field, value] : dimensions) {
    if (value == 0) return FieldError(field, value, "at least 1");
  }
  return absl::OkStatus();
}

absl::Status CheckDimensionsNotZero(const Geometry& g) {
  RETURN_IF_ERROR(CheckNoneZero({{"vocab", g.vocab},
                                 {"d_model", g.d_model},
                                 {"num_heads", g.num_heads},
                                 {"num_kv_heads", g.num_kv_heads},
                                 {"num_layers", g.num_layers},
                                 {QkHeadDimName(g), g.qk_head_dim},
                                 {"v_head_dim", g.v_head_dim},
                                 {"max_seq_len", g.max_seq_len},
                                 {"mhc_lanes", g.mhc_lanes}}));
  if (g.engram_sites.empty()) return absl::OkStatus();
  return CheckNoneZero({{"engram_slots", g.engram_slots},
                        {"engram_sub_dim", g.engram_sub_dim},
                        {"num_engram_tables", g.num_engram_tables},
                        {"engram_conv_taps", g.engram_conv_taps},
                        {"engram_conv_dilation", g.engram_conv_dilation}});
}

absl::Status CheckHeads(const Geometry& g) {
  if (g.num_heads % g.num_kv_heads == 0) return absl::OkStatus();
  return FieldError("num_heads", g.num_heads,
                    absl::StrFormat("a multiple of num_kv_heads, %d", g.num_kv_heads));
}

absl::Status CheckQkHeadDimEven(const Geometry& g) {
  if (g.qk_head_dim % 2 == 0) return absl::OkStatus();
  return FieldError(QkHeadDimName(g), g.qk_head_dim, "an even number");
}

absl::Status CheckHadaN(const Geometry& g) {
  if (g.d_model > kLargestPowerOfTwo) {
    return FieldError("d_model", g.d_model, absl::StrFormat("at most %d", kLargestPowerOfTwo));
  }
  const uint32_t wanted = NextPowerOfTwo(g.d_model);
  if (g.hada_n == wanted) return absl::OkStatus();
  return FieldError(
      "hada_n", g.hada_n,
      absl::StrFormat("%d, the smallest power of two from d_model %d on", wanted, g.d_model));
}

absl::Status CheckSitesInsideLayers(const Geometry& g) {
  for (size_t i = 0; i < g.engram_sites.size(); ++i) {
    if (g.engram_sites[i] >= g.num_layers) {
      return FieldError(absl::StrFormat("engram_sites[%d]", i), g.engram_sites[i],
                        absl::StrFormat("a layer below num_layers, %d", g.num_layers));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGlobalsInsideLayers(const Geometry& g) {
  if (g.num_layers >= kMaxLayers || (g.global_mask >> g.num_layers) == 0) return absl::OkStatus();
  const auto highest = 63 - std::countl_zero(g.global_mask);
  return FieldError(highest < 32 ? "global_mask_lo" : "global_mask_hi",
                    absl::StrFormat("bit %d of the mask is set", highest),
                    absl::StrFormat("only bits below num_layers, %d", g.num_layers));
}

absl::Status CheckSitesAscend(const Geometry& g) {
  for (size_t i = 1; i < g.engram_sites.size(); ++i) {
    if (g.engram_sites[i] <= g.engram_sites[i - 1]) {
      return FieldError(absl::StrFormat("engram_sites[%d]", i), g.engram_sites[i],
                        absl::StrFormat("more than the site before it, %d", g.engram_sites[i - 1]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLayerCount(const Geometry& g) {
  if (g.num_layers <= kMaxLayers) return absl::OkStatus();
  return FieldError("num_layers", g.num_layers, absl::StrFormat("at most %d", kMaxLayers));
}

absl::Status CheckOrders(const Geometry& g) {
  const size_t count = g.engram_orders.size();
  if (count > kMaxEngramOrders || (count == 0 && !g.engram_sites.empty())) {
    return FieldError("num_engram_orders", count, "1 to 4");
  }
  for (size_t i = 0; i < count; ++i) {
    if (g.engram_orders[i] < 1 || g.engram_orders[i] > 4) {
      return FieldError(absl::StrFormat("engram_orders[%d]", i), g.engram_orders[i], "1 to 4");
    }
  }
  return absl::OkStatus();
}

// Every order has as many tables as every other.
absl::Status CheckTablesDivideAmongOrders(const Geometry& g) {
  if (g.engram_sites.empty() || g.num_engram_tables % g.engram_orders.size() == 0) {
    return absl::OkStatus();
  }
  return FieldError("num_engram_tables", g.num_engram_tables,
                    absl::StrFormat("a multiple of num_engram_orders, %d", g.engram_orders.size()));
}

absl::Status CheckSiteCount(const Geometry& g) {
  const uint32_t limit = MaxEngramSites(g.generation);
  if (g.engram_sites.size() <= limit) return absl::OkStatus();
  return FieldError("num_engram_sites", g.engram_sites.size(),
                    absl::StrFormat("at most %d", limit));
}

absl::Status CheckOutVocab(const Geometry& g) {
  if (g.out_vocab <= g.vocab) return absl::OkStatus();
  return FieldError("out_vocab", g.out_vocab, absl::StrFormat("at most vocab, %d", g.vocab));
}

absl::Status CheckKvBits(const Geometry& g) {
  if (g.kv_bits == 8 || (g.kv_bits >= 2 && g.kv_bits <= 4)) return absl::OkStatus();
  return FieldError("kv_bits", g.kv_bits, "2, 3, 4 or 8");
}

absl::Status CheckRopeTheta(const Geometry& g) {
  if (std::isfinite(g.rope_theta) && g.rope_theta > 0) return absl::OkStatus();
  return FieldError("rope_theta", absl::StrFormat("%g", static_cast<double>(g.rope_theta)),
                    "a finite number above 0");
}

// Directory records hold dimensions in 32 bits, so the products of fields that are dimensions must
// fit there.
absl::Status CheckDimensionFits(std::string_view product, std::initializer_list<uint32_t> factors) {
  uint64_t value = 1;
  for (const uint32_t factor : factors) {
    value *= factor;  // Both below 2^32.
    if (value > UINT32_MAX) {
      return FieldError(product, "more than 32 bits hold", "a dimension of at most 4294967295");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDimensionsFit(const Geometry& g) {
  const uint32_t lanes = g.mhc_lanes;
  RETURN_IF_ERROR(CheckDimensionFits("num_heads * " + std::string(QkHeadDimName(g)),
                                     {g.num_heads, g.qk_head_dim}));
  RETURN_IF_ERROR(CheckDimensionFits("num_heads * v_head_dim", {g.num_heads, g.v_head_dim}));
  RETURN_IF_ERROR(CheckDimensionFits("mhc_lanes * d_model", {lanes, g.d_model}));
  RETURN_IF_ERROR(
      CheckDimensionFits("num_layers * mhc_lanes * mhc_lanes", {g.num_layers, lanes, lanes}));
  if (g.engram_sites.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckDimensionFits("num_engram_tables * engram_slots",
                                     {g.num_engram_tables, g.engram_slots}));
  return CheckDimensionFits("num_engram_tables * engram_sub_dim",
                            {g.num_engram_tables, g.engram_sub_dim});
}

using Rule = absl::Status (*)(const Geometry&);

// In the specification's order; then what it says of fields elsewhere.
constexpr auto kRules = std::to_array<Rule>({
    CheckDimensionsNotZero,
    CheckHeads,
    CheckQkHeadDimEven,
    CheckHadaN,
    CheckSitesInsideLayers,
    CheckGlobalsInsideLayers,
    CheckSitesAscend,
    CheckLayerCount,
    CheckOrders,
    CheckOutVocab,
    CheckSiteCount,
    CheckTablesDivideAmongOrders,
    CheckKvBits,
    CheckRopeTheta,
    CheckDimensionsFit,
});

}  // namespace

absl::Status CheckGeometry(const Geometry& geometry) {
  for (const Rule rule : kRules) RETURN_IF_ERROR(rule(geometry));
  return absl::OkStatus();
}

}  // namespace needle::format
