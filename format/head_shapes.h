// format/head_shapes.h: what an archive's directory says of its probe heads, which the header does
// not describe. Specification: "Probe heads, Needle 3", "Tensor order, Needle 2".
#ifndef NEEDLE_FORMAT_HEAD_SHAPES_H_
#define NEEDLE_FORMAT_HEAD_SHAPES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "format/header.h"
#include "format/schema.h"

namespace needle::format {

struct DerivedHeads {
  std::vector<HeadShape> shapes;
  size_t end = 0;  // position behind the last head's last record
};

// The heads whose records start at `first`, the position behind final_norm; none when there is at
// most one record there, which then is the tokenizer. The directory must lie inside `file`. A shape
// that does not fit the geometry is not found here but by CheckRecord, against the Schema made with
// these heads. DataLoss: the manifest is not one, or a head is cut off. Unimplemented: a speech
// archive.
absl::StatusOr<DerivedHeads> DeriveHeadShapes(std::span<const uint8_t> file, const Header& header,
                                              size_t first);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_HEAD_SHAPES_H_
