// quant/unroll.h: loops over the vectors of a group, which only fit in registers when fully
// unrolled.
#ifndef NEEDLE_QUANT_UNROLL_H_
#define NEEDLE_QUANT_UNROLL_H_

// NEEDLE_UNROLL(n) in front of a loop of at most n rounds. Sanitizers' checks make unrolled kernels
// take minutes to compile, so builds with them (NEEDLE_NO_UNROLL) go without.
#ifdef NEEDLE_NO_UNROLL
#define NEEDLE_UNROLL(n)
#else
#define NEEDLE_UNROLL_PRAGMA_(text) _Pragma(#text)
#define NEEDLE_UNROLL(n) NEEDLE_UNROLL_PRAGMA_(GCC unroll n)
#endif

#endif  // NEEDLE_QUANT_UNROLL_H_
