#include <float.h>
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
#error "answers are specified to the bit; compile without -ffast-math and its like"
#endif
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0
#error "infinite values are used; compile without -ffinite-math-only"
#endif
/* 16 is 0 on processors with 16-bit floats. */
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "answers are specified to the bit; arithmetic must not use a wider type (-mfpmath=sse)"
#endif
/* Products and sums are fused where fma says so, and nowhere else. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize ("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif
