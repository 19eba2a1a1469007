// engine/numerics.h: the three ways to compute. Specification: "The model the reference engine
// runs".
#ifndef NEEDLE_ENGINE_NUMERICS_H_
#define NEEDLE_ENGINE_NUMERICS_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace needle::engine {

enum class Numerics : uint8_t {
  kFloat,   // every weight decoded, all arithmetic f32: the correctness reference
  kA8,      // as kFloat, with the training-time activation quantisation
  kKernel,  // products by the integer kernel, KV cache at the header's kv_bits: what a device runs
};

// "float", "a8", "kernel".
std::string_view NumericsName(Numerics numerics);
// The inverse; exactly those three texts.
std::optional<Numerics> NumericsFromName(std::string_view name);

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_NUMERICS_H_
