#include "engine/rope.h"

#include <cmath>
#include <cstdint>

namespace needle::engine {
namespace {

// base^exponent by repeated squaring.
double Power(double base, size_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

// The n-th root of `value` > 0 by Newton's iteration from the side where it falls monotonically.
double Root(double value, size_t n) {
  const auto order = static_cast<double>(n);
  double root = value > 1.0 ? value : 1.0;
  for (int i = 0; i < 4000; ++i) {
    const double slope = order * Power(root, n - 1);
    const double next = root - (Power(root, n) - value) / slope;
    if (!(next < root)) break;
    root = next;
  }
  return root;
}

// Taylor series about 0 up to pi/4: the first term left out is below 1e-17.
double SinNearZero(double x) {
  const double x2 = x * x;
  double sum = 0;
  for (int k = 17; k >= 3; k -= 2) sum = (sum + 1.0) * -x2 / (k * (k - 1));
  return x + x * sum;
}
double CosNearZero(double x) {
  const double x2 = x * x;
  double sum = 0;
  for (int k = 18; k >= 2; k -= 2) sum = (sum + 1.0) * -x2 / (k * (k - 1));
  return 1.0 + sum;
}

// pi/2 in three parts of 33, 33 and 53 bits (fdlibm): k times each of the first two is exact below
// 2^20, and the error stays below 1e-8 up to k = 2^31.
constexpr double kHalfPi1 = 1.57079632673412561417e+00;
constexpr double kHalfPi2 = 6.07710050630396597660e-11;
constexpr double kHalfPi3 = 2.02226624871116645580e-21;
constexpr double kTwoOverPi = 0.63661977236758134308;

}  // namespace

Rope::Rope(float theta, size_t dim) : frequencies_(dim / 2) {
  const double step = Root(1.0 / static_cast<double>(theta), dim / 2);
  double frequency = 1.0;
  for (double& f : frequencies_) {
    f = frequency;
    frequency *= step;
  }
}

void Rope::Angles(size_t position, std::span<float> cosines, std::span<float> sines) const {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = static_cast<double>(position) * frequencies_[i];
    const auto quarter = static_cast<uint64_t>(angle * kTwoOverPi + 0.5);
    const auto k = static_cast<double>(quarter);
    const double rest = ((angle - k * kHalfPi1) - k * kHalfPi2) - k * kHalfPi3;
    const double s = SinNearZero(rest);
    const double c = CosNearZero(rest);
    const bool swapped = quarter % 2 == 1;
    const double sign_sin = quarter % 4 >= 2 ? -1.0 : 1.0;
    const double sign_cos = quarter % 4 == 1 || quarter % 4 == 2 ? -1.0 : 1.0;
    sines[i] = static_cast<float>(sign_sin * (swapped ? c : s));
    cosines[i] = static_cast<float>(sign_cos * (swapped ? s : c));
  }
}

void Rope::Apply(std::span<float> head, std::span<const float> cosines,
                 std::span<const float> sines) {
  const size_t half = cosines.size();
  for (size_t i = 0; i < half; ++i) {
    const float x1 = head[i];
    const float x2 = head[half + i];
    head[i] = x1 * cosines[i] - x2 * sines[i];
    head[half + i] = x2 * cosines[i] + x1 * sines[i];
  }
}

}  // namespace needle::engine
