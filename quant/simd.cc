#include "quant/simd.h"

namespace needle::quant {

bool UsePortable() { return true; }

const char* SimdTarget() { return "portable"; }

}  // namespace needle::quant
