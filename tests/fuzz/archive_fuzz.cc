// Archives from arbitrary bytes. What is accepted is read in full, so that a rule that lets a bad
// size through shows as a fault; and its header, records and layout must come out as they went in.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "format/archive.h"
#include "format/layer_selection.h"

namespace {

using needle::format::Archive;
using needle::format::DType;

void Require(bool holds) {
  if (!holds) std::abort();
}

uint64_t SumOf(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (const uint8_t byte : bytes) sum += byte;
  return sum;
}

uint64_t ReadTensors(const Archive& archive) {
  uint64_t sum = 0;
  for (size_t i = 0; i < archive.records().size(); ++i) {
    switch (archive.schema().tensors()[i].dtype) {
      case DType::kF16:
      case DType::kF32:
        sum += archive.Floats(i).size();
        break;
      case DType::kCq: {
        const auto view = archive.Cq(i);
        Require(view.indices.size() == view.layout.rows * view.layout.row_bytes);
        Require(view.norms.size() == view.layout.rows * view.layout.groups * 2);
        sum += SumOf(view.indices) + SumOf(view.norms) + view.codebook.size();
        break;
      }
      case DType::kRaw:
        sum += SumOf(archive.Blob(i));
        break;
    }
  }
  return sum;
}

void RequireSame(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  Require(std::equal(a.begin(), a.end(), b.begin(), b.end()));
}

void RequireSameFront(const Archive& archive) {
  const auto header = needle::format::SerializeHeader(archive.header());
  RequireSame(header, archive.bytes().first(header.size()));
  uint64_t place = needle::format::DirectoryEnd(archive.header()) -
                   archive.records().size() * needle::format::kRecordBytes;
  for (const needle::format::Record& record : archive.records()) {
    std::array<uint8_t, needle::format::kRecordBytes> bytes{};
    needle::format::SerializeRecord(record, bytes);
    RequireSame(bytes, archive.bytes().subspan(place, bytes.size()));
    place += bytes.size();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto archive = Archive::FromBytes({data, data + size}, "fuzz");
  if (!archive.ok()) {
    Require(!archive.status().message().empty());
    return 0;
  }
  RequireSameFront(*archive);
  volatile uint64_t sink = ReadTensors(*archive);
  static_cast<void>(sink);
  const auto& geometry = archive->geometry();
  Require(needle::format::LayerSelection::Make(geometry, geometry.num_layers, {}).ok());
  return 0;
}
