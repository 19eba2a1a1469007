// tests/verify/damage.h: a good archive, damaged on purpose.
#ifndef NEEDLE_TESTS_VERIFY_DAMAGE_H_
#define NEEDLE_TESTS_VERIFY_DAMAGE_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/endian.h"
#include "format/archive.h"
#include "format/header.h"
#include "tests/support/files.h"

namespace needle::verify {

// Bytes of an archive that can be changed by what they mean. Names are canonical. Throws when the
// archive is not there, so that a test that needs it fails.
class Damage {
 public:
  // `path`: the good archive.
  explicit Damage(const std::string& path) : path_(path), bytes_(tests::ReadBytes(path)) {
    auto archive = format::Archive::Open(path);
    if (!archive.ok()) throw std::runtime_error(archive.status().ToString());
    good_.push_back(*std::move(archive));
  }

  const format::Archive& good() const { return good_[0]; }
  std::vector<uint8_t>& bytes() { return bytes_; }

  size_t Position(const std::string& tensor) const {
    return good().schema().FindName(tensor).value();
  }
  uint64_t Offset(const std::string& tensor) const {
    return good().records()[Position(tensor)].offset;
  }
  format::CqView View(const std::string& tensor) const { return good().Cq(Position(tensor)); }

  uint16_t Norm(const std::string& tensor, uint64_t row, uint64_t group) const {
    return base::LoadLe<uint16_t>(&bytes_[NormOffset(tensor, row, group)]);
  }
  void SetNorm(const std::string& tensor, uint64_t row, uint64_t group, uint16_t bits) {
    base::StoreLe(&bytes_[NormOffset(tensor, row, group)], bits);
  }
  void FlipIndexBit(const std::string& tensor, uint64_t row, uint64_t bit) {
    bytes_[Offset(tensor) + row * View(tensor).layout.row_bytes + bit / 8] ^=
        static_cast<uint8_t>(1U << (bit % 8));
  }
  void SwapNormsOfRows(const std::string& tensor, uint64_t a, uint64_t b) {
    for (uint64_t group = 0; group < View(tensor).layout.groups; ++group) {
      const uint16_t norm = Norm(tensor, a, group);
      SetNorm(tensor, a, group, Norm(tensor, b, group));
      SetNorm(tensor, b, group, norm);
    }
  }
  // The norms as a program that takes them for column-major writes them.
  void TransposeNorms(const std::string& tensor) {
    const format::CqLayout& layout = View(tensor).layout;
    std::vector<uint16_t> norms;
    for (uint64_t group = 0; group < layout.groups; ++group) {
      for (uint64_t row = 0; row < layout.rows; ++row) norms.push_back(Norm(tensor, row, group));
    }
    for (uint64_t i = 0; i < norms.size(); ++i) {
      SetNorm(tensor, i / layout.groups, i % layout.groups, norms[i]);
    }
  }
  void FlipCodebookBit(size_t entry) {
    bytes_[format::HeaderBytes(good().geometry().generation) + 4 * entry] ^= 1;
  }

  absl::StatusOr<format::Archive> Reopen() const {
    return format::Archive::FromBytes(bytes_, "damaged.cact");
  }

 private:
  uint64_t NormOffset(const std::string& tensor, uint64_t row, uint64_t group) const {
    const format::CqLayout& layout = View(tensor).layout;
    return Offset(tensor) + layout.norms_offset + 2 * (row * layout.groups + group);
  }

  std::string path_;
  std::vector<uint8_t> bytes_;
  std::vector<format::Archive> good_;  // one; Archive has no public default
};

}  // namespace needle::verify

#endif  // NEEDLE_TESTS_VERIFY_DAMAGE_H_
