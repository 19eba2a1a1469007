// engine/rope.h: rotary position angles. Specification: "Attention". Internal to engine/.
#ifndef NEEDLE_ENGINE_ROPE_H_
#define NEEDLE_ENGINE_ROPE_H_

#include <cstddef>
#include <span>
#include <vector>

namespace needle::engine {

// Cosines and sines of t * theta^(-2i/dim), computed in f64 with + - * / alone, so that they are
// the same on every machine; within 1e-7 of the true values up to t = 2^31.
class Rope {
 public:
  // dim is even and at least 2; theta is positive.
  Rope(float theta, size_t dim);

  size_t half() const { return frequencies_.size(); }
  // Both have half() values.
  void Angles(size_t position, std::span<float> cosines, std::span<float> sines) const;
  // Rotates a head of 2 * half() values in place.
  static void Apply(std::span<float> head, std::span<const float> cosines,
                    std::span<const float> sines);

 private:
  std::vector<double> frequencies_;
};

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_ROPE_H_
