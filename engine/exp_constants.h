// engine/exp_constants.h: the exponential function that both twins of vector_ops.h compute.
#ifndef NEEDLE_ENGINE_EXP_CONSTANTS_H_
#define NEEDLE_ENGINE_EXP_CONSTANTS_H_

namespace needle::engine {

// e^x = 2^k * e^r, k = round(x / ln 2), r = x - k * ln 2 in two steps (the high part times k is
// exact), e^r = 1 + r + r^2 * P(r): the coefficients of Cephes' expf.
inline constexpr float kExpLow = -87.0F;
inline constexpr float kExpHigh = 88.0F;
inline constexpr float kLog2E = 1.44269504088896341F;
inline constexpr float kLn2High = 0.693359375F;
inline constexpr float kLn2Low = -2.12194440e-4F;
inline constexpr float kExpP[6] = {1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                   4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F};
// Adding and subtracting it rounds |x| < 2^22 to the nearest integer, ties to even.
inline constexpr float kRoundMagic = 12582912.0F;

}  // namespace needle::engine

#endif  // NEEDLE_ENGINE_EXP_CONSTANTS_H_
