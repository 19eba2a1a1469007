#include "quant/codebook.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace needle::quant {
namespace {

using format::Width;

constexpr size_t kNumStored = 28;  // 4 + 8 + 16
constexpr double kStoredGroup = 128.0;

constexpr std::array<uint32_t, kNumStored> kReferenceBits = {
    0xBE085E47, 0xBD237060, 0x3D23FC09, 0x3E08A9DB,  //
    0xBE41CDBB, 0xBDF16DB0, 0xBD87797D, 0xBCAC246C, 0x3CB50D39, 0x3D88C69C, 0x3DF23363, 0x3E4261C1,
    0xBE7547C2, 0xBE390B02, 0xBE105747, 0xBDDF41F9, 0xBDA6F045, 0xBD67898A, 0xBD06EB34, 0xBC25BE0A,
    0x3C5040F6, 0x3D124277, 0x3D738A80, 0x3DAE086F, 0x3DE6E514, 0x3E142B6E, 0x3E3CA926, 0x3E781699};

constexpr std::array<uint32_t, kNumStored> kAnalyticBits = {
    0xBE08B518, 0xBD23EC84, 0x3D23EC84, 0x3E08B518,  //
    0xBE42C59B, 0xBDF34608, 0xBD88DA01, 0xBCB17797, 0x3CB17797, 0x3D88DA01, 0x3DF34608, 0x3E42C59B,
    0xBE775366, 0xBE3B441D, 0xBE1272E7, 0xBDE366F2, 0xBDAA94F4, 0xBD6DC5AF, 0xBD0C7D0E, 0xBC39EF95,
    0x3C39EF95, 0x3D0C7D0E, 0x3D6DC5AF, 0x3DAA94F4, 0x3DE366F2, 0x3E1272E7, 0x3E3B441D, 0x3E775366};

constexpr std::array<float, kNumStored> FloatsFromBits(
    const std::array<uint32_t, kNumStored>& bits) {
  std::array<float, kNumStored> floats{};
  for (size_t i = 0; i < kNumStored; ++i) floats[i] = std::bit_cast<float>(bits[i]);
  return floats;
}
constexpr std::array<float, kNumStored> kReference = FloatsFromBits(kReferenceBits);
constexpr std::array<float, kNumStored> kAnalytic = FloatsFromBits(kAnalyticBits);

// Of the unit Gaussian, before the division by sqrt(group).
constexpr double kTernaryEntry = 1.2240064;
constexpr double kBinaryEntry = 0.7978845608028654;  // sqrt(2/pi)

// Where a width's entries start among the stored ones.
size_t StoredOffset(Width width) {
  if (width == Width::kCq2) return 0;
  return width == Width::kCq3 ? 4 : 12;
}

std::vector<float> AnalyticEntries(Width width, uint32_t group) {
  const double root = std::sqrt(static_cast<double>(group));
  if (width == Width::kBinary) {
    const auto entry = static_cast<float>(kBinaryEntry / root);
    return {-entry, entry};
  }
  const auto entry = static_cast<float>(kTernaryEntry / root);
  return {-entry, 0.0F, entry};
}

absl::StatusOr<std::vector<float>> StoredEntries(Width width, uint32_t group,
                                                 std::span<const float> stored) {
  if (stored.size() != kNumStored) {
    return absl::InvalidArgumentError(
        absl::StrFormat("codebooks: %d values, want %d", stored.size(), kNumStored));
  }
  const double scale = std::sqrt(kStoredGroup / static_cast<double>(group));
  std::vector<float> entries;
  for (const float value : stored.subspan(StoredOffset(width), format::NumLevels(width))) {
    entries.push_back(static_cast<float>(static_cast<double>(value) * scale));
  }
  return entries;
}

absl::Status CheckEntries(Width width, uint32_t group, std::span<const float> entries) {
  if (!std::has_single_bit(group) || group < 8) {
    return absl::InvalidArgumentError(
        absl::StrFormat("group %d, want a power of two of at least 8", group));
  }
  if (entries.size() != format::NumLevels(width)) {
    return absl::InvalidArgumentError(absl::StrFormat("codebook of %d entries, want %d",
                                                      entries.size(), format::NumLevels(width)));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    if (std::isfinite(entries[i]) && (i == 0 || entries[i - 1] < entries[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("codebook of %d entries: entry %d is %g, want finite and ascending",
                        entries.size(), i, entries[i]));
  }
  return absl::OkStatus();
}

// The specification's step 4 for one pair of neighbours.
bool PicksLower(float unit, float lower, float upper) {
  return std::fabs(unit - lower) <= std::fabs(unit - upper);
}

// Floats in the order of their values as integers, and back.
int32_t OrderedBits(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits >= 0 ? bits : std::bit_cast<int32_t>(0x80000000U - std::bit_cast<uint32_t>(bits));
}
float FromOrderedBits(int32_t ordered) {
  return ordered >= 0 ? std::bit_cast<float>(ordered)
                      : std::bit_cast<float>(0x80000000U - std::bit_cast<uint32_t>(ordered));
}

// The largest float for which PicksLower. Between the two entries, unit - lower never falls and
// upper - unit never rises with unit, also after rounding, so the choice flips once.
float Threshold(float lower, float upper) {
  int64_t low = OrderedBits(lower);
  int64_t high = OrderedBits(upper);
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const bool picks_lower =
        PicksLower(FromOrderedBits(static_cast<int32_t>(middle)), lower, upper);
    (picks_lower ? low : high) = middle;
  }
  return FromOrderedBits(static_cast<int32_t>(low));
}

std::vector<float> Thresholds(std::span<const float> entries) {
  std::vector<float> thresholds;
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    const float lower = entries[i];
    const float upper = entries[i + 1];
    if (upper - lower < 0x1p-20F || lower < -2.0F || upper > 2.0F) return {};
    thresholds.push_back(Threshold(lower, upper));
  }
  return thresholds;
}

}  // namespace

std::span<const float> StoredCodebooks(CodebookKind kind) {
  return kind == CodebookKind::kReference ? kReference : kAnalytic;
}

absl::StatusOr<Codebook> Codebook::FromEntries(Width width, uint32_t group,
                                               std::span<const float> entries) {
  RETURN_IF_ERROR(CheckEntries(width, group, entries));
  Codebook codebook;
  codebook.width_ = width;
  codebook.group_ = group;
  codebook.entries_.assign(entries.begin(), entries.end());
  codebook.thresholds_ = Thresholds(entries);
  return codebook;
}

absl::StatusOr<Codebook> Codebook::Make(Width width, uint32_t group,
                                        std::span<const float> stored) {
  if (width == Width::kBinary || width == Width::kTernary) {
    return FromEntries(width, group, AnalyticEntries(width, group));
  }
  ASSIGN_OR_RETURN(const std::vector<float> entries, StoredEntries(width, group, stored));
  return FromEntries(width, group, entries);
}

Codebook Codebook::Standard(Width width, CodebookKind kind) {
  return *Make(width, format::kGroup, StoredCodebooks(kind));
}

uint32_t Codebook::Nearest(float unit) const {
  const auto last = static_cast<ptrdiff_t>(entries_.size()) - 1;
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), unit) - entries_.begin();
  const auto upper = static_cast<size_t>(std::clamp<ptrdiff_t>(found, 1, last));
  const bool lower = PicksLower(unit, entries_[upper - 1], entries_[upper]);
  return static_cast<uint32_t>(lower ? upper - 1 : upper);
}

double TheoreticalDistortion(Width width) {
  switch (width) {
    case Width::kBinary:
      return 0.3634;
    case Width::kTernary:
      return 0.1902;
    case Width::kCq2:
      return 0.1175;
    case Width::kCq3:
      return 0.03454;
    case Width::kCq4:
      return 0.009497;
  }
  return 0;
}

}  // namespace needle::quant
