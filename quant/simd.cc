#include "quant/simd.h"

#include <cstdlib>
#include <string_view>

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace needle::quant {

bool UsePortable() {
  static const bool portable = [] {
    const char* wanted = std::getenv("NEEDLE_SIMD");
    return wanted != nullptr && std::string_view(wanted) == "portable";
  }();
  return portable;
}

const char* SimdTarget() {
  if (UsePortable()) return "portable";
  // AVX3_DL (VNNI) has sources of its own; the others are Highway's.
  const int64_t supported = hwy::SupportedTargets() & (HWY_TARGETS | HWY_AVX3_DL);
  // The best target is the lowest bit.
  return hwy::TargetName(supported & -supported);
}

}  // namespace needle::quant
