#include "engine/numerics.h"

namespace needle::engine {

std::string_view NumericsName(Numerics numerics) {
  switch (numerics) {
    case Numerics::kFloat:
      return "float";
    case Numerics::kA8:
      return "a8";
    case Numerics::kKernel:
      return "kernel";
  }
  return "unknown";
}

std::optional<Numerics> NumericsFromName(std::string_view name) {
  for (const Numerics numerics : {Numerics::kFloat, Numerics::kA8, Numerics::kKernel}) {
    if (name == NumericsName(numerics)) return numerics;
  }
  return std::nullopt;
}

}  // namespace needle::engine
