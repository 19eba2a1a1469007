// converter/verify/geometry_differences.h: where two models' shapes differ.
#ifndef NEEDLE_CONVERTER_VERIFY_GEOMETRY_DIFFERENCES_H_
#define NEEDLE_CONVERTER_VERIFY_GEOMETRY_DIFFERENCES_H_

#include <string>
#include <vector>

#include "format/geometry.h"

namespace needle::verify {

// Each header field that differs: "num_layers: 4, want 6". Of another generation: that alone.
std::vector<std::string> GeometryDifferences(const format::Geometry& found,
                                             const format::Geometry& wanted);

}  // namespace needle::verify

#endif  // NEEDLE_CONVERTER_VERIFY_GEOMETRY_DIFFERENCES_H_
