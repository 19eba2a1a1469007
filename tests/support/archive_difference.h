// tests/support/archive_difference.h: an archive of ours against the reference's, with proof that
// each differing index or norm is one that the specification lets differ.
#ifndef NEEDLE_TESTS_SUPPORT_ARCHIVE_DIFFERENCE_H_
#define NEEDLE_TESTS_SUPPORT_ARCHIVE_DIFFERENCE_H_

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/endian.h"
#include "base/half.h"
#include "converter/tensor_source.h"
#include "format/archive.h"
#include "gtest/gtest.h"
#include "quant/encode.h"
#include "quant/pack.h"
#include "tests/support/status_matchers.h"

namespace needle::tests {

// Permitted differences that were found, and how much was compared.
struct ArchiveDifferences {
  uint64_t weights = 0;
  uint64_t indices = 0;
  uint64_t norms = 0;
  uint64_t differing_norms = 0;
};

// A group of weights rotated in f64, divided by the square root of its size.
inline std::vector<double> RotateExactly(std::span<const float> group) {
  std::vector<double> values(group.begin(), group.end());
  for (size_t stride = 1; stride < values.size(); stride *= 2) {
    for (size_t i = 0; i < values.size(); ++i) {
      if ((i & stride) != 0) continue;
      const double a = values[i];
      const double b = values[i + stride];
      values[i] = a + b;
      values[i + stride] = a - b;
    }
  }
  for (double& value : values) value /= std::sqrt(static_cast<double>(group.size()));
  return values;
}

inline double NormOf(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// The reference rotates by an f32 matrix product of 128 terms. Rounding adds up like a random walk:
// sqrt(128) * 2^-24 = 7e-7 of the group's norm, to which a coordinate u is relative.
inline constexpr double kRotationError = 7e-7;
// Two neighbouring f16 values differ by 2^-10 of their size or less, and a norm is as exact as its
// rotation: it may fall on either side when it lies that close to the middle.
inline constexpr double kNormError = 7e-7;

// One group's indices (codebook positions) and norm, ours and the reference's.
struct GroupPair {
  std::span<const uint8_t> ours;
  std::span<const uint8_t> theirs;
  uint16_t our_norm = 0;
  uint16_t their_norm = 0;
};

inline void CompareGroup(const std::string& where, std::span<const float> weights,
                         std::span<const float> codebook, const GroupPair& pair,
                         ArchiveDifferences& found) {
  found.weights += weights.size();
  ++found.norms;
  if (pair.our_norm == pair.their_norm &&
      std::equal(pair.ours.begin(), pair.ours.end(), pair.theirs.begin())) {
    return;
  }
  const std::vector<double> rotated = RotateExactly(weights);
  const double norm = NormOf(rotated);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (pair.ours[i] == pair.theirs[i]) continue;
    ++found.indices;
    EXPECT_EQ(std::abs(pair.ours[i] - pair.theirs[i]), 1) << where << " weight " << i;
    const double middle = (static_cast<double>(codebook[pair.ours[i]]) +
                           static_cast<double>(codebook[pair.theirs[i]])) /
                          2;
    EXPECT_NEAR(rotated[i] / norm, middle, kRotationError) << where << " weight " << i;
  }
  if (pair.our_norm == pair.their_norm) return;
  ++found.differing_norms;
  EXPECT_EQ(std::abs(pair.our_norm - pair.their_norm), 1) << where;
  const double middle = (static_cast<double>(base::F32FromF16(pair.our_norm)) +
                         static_cast<double>(base::F32FromF16(pair.their_norm))) /
                        2;
  EXPECT_NEAR(norm, middle, norm * kNormError) << where;
}

inline void CompareCq(const format::Archive& ours, const format::Archive& theirs, size_t position,
                      const converter::TensorSource& source, ArchiveDifferences& found) {
  const format::TensorSpec& spec = ours.schema().tensors()[position];
  const format::CqView a = ours.Cq(position);
  const format::CqView b = theirs.Cq(position);
  const auto codebook = quant::CodebookFor(a);
  ASSERT_OK(codebook);
  std::vector<float> row(a.layout.padded_cols);
  std::vector<uint8_t> our_codes(a.layout.padded_cols);
  std::vector<uint8_t> their_codes(a.layout.padded_cols);
  for (uint64_t r = 0; r < a.layout.rows; ++r) {
    ASSERT_OK(source.ReadRows(position, r, 1, std::span(row).first(a.layout.cols)));
    quant::UnpackRow(a.width, a.indices.subspan(r * a.layout.row_bytes, a.layout.row_bytes),
                     our_codes);
    quant::UnpackRow(b.width, b.indices.subspan(r * a.layout.row_bytes, a.layout.row_bytes),
                     their_codes);
    for (uint64_t g = 0; g < a.layout.groups; ++g) {
      const size_t norm = (r * a.layout.groups + g) * sizeof(uint16_t);
      CompareGroup(spec.name + " row " + std::to_string(r) + " group " + std::to_string(g),
                   std::span(row).subspan(g * a.group, a.group), codebook->entries(),
                   {.ours = std::span(our_codes).subspan(g * a.group, a.group),
                    .theirs = std::span(their_codes).subspan(g * a.group, a.group),
                    .our_norm = base::LoadLe<uint16_t>(&a.norms[norm]),
                    .their_norm = base::LoadLe<uint16_t>(&b.norms[norm])},
                   found);
    }
  }
}

// Expects `ours`, built from `source`, to equal `theirs` in every byte outside CQ blobs, and inside
// them but for permitted differences: at most 1 in 100,000 weights and 1 in 1,000 norms.
inline ArchiveDifferences ExpectSameArchive(const format::Archive& ours,
                                            const format::Archive& theirs,
                                            const converter::TensorSource& source) {
  ArchiveDifferences found;
  EXPECT_EQ(ours.bytes().size(), theirs.bytes().size());
  EXPECT_TRUE(ours.records() == theirs.records()) << "directories differ";
  if (::testing::Test::HasFailure()) return found;
  std::vector<uint8_t> our_rest(ours.bytes().begin(), ours.bytes().end());
  std::vector<uint8_t> their_rest(theirs.bytes().begin(), theirs.bytes().end());
  for (size_t i = 0; i < ours.records().size(); ++i) {
    if (ours.schema().tensors()[i].dtype != format::DType::kCq) continue;
    CompareCq(ours, theirs, i, source, found);
    const format::Record& record = ours.records()[i];
    std::fill_n(&our_rest[record.offset], record.num_bytes, uint8_t{0});
    std::fill_n(&their_rest[record.offset], record.num_bytes, uint8_t{0});
  }
  EXPECT_TRUE(our_rest == their_rest) << "bytes outside CQ blobs differ";
  EXPECT_LE(found.indices * 100'000, found.weights);
  EXPECT_LE(found.differing_norms * 1'000, found.norms);
  return found;
}

}  // namespace needle::tests

#endif  // NEEDLE_TESTS_SUPPORT_ARCHIVE_DIFFERENCE_H_
