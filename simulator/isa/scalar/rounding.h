/* The host's rounding mode around an operation, and what all f32 instructions do to a value.  fesetround also
 * sets the x87 unit, which takes a hundred cycles. */
#ifndef SIM_ISA_ROUNDING_H
#define SIM_ISA_ROUNDING_H

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ptx/insn.h"

/* The host's name of a rounding of PTX; to nearest without one, or if it rounds to an integer. */
static inline int rounding_mode(unsigned rounding) {
    return rounding == RND_RZ   ? FE_TOWARDZERO
           : rounding == RND_RM ? FE_DOWNWARD
           : rounding == RND_RP ? FE_UPWARD
                                : FE_TONEAREST;
}

/* Flushes subnormals to zero of the same sign. */
static inline float flush(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* The one NaN that arithmetic returns. */
static inline float canonical(float x) {
    const uint32_t bits = 0x7fffffff;
    if (x == x) {
        return x;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

#ifdef __FMA__ /* then no operation here is a call of the C library that uses the x87 unit */
#include <immintrin.h>

#define ROUNDING_SHIFT 3 /* HW: MXCSR has the x87 control word's rounding bits, three places higher */
#define ROUNDING_BITS  0x6000u

/* Sets a rounding of PTX and returns what rounding_restore takes. */
static inline unsigned rounding_set(unsigned rounding) {
    const unsigned before = _mm_getcsr(), mode = (unsigned)rounding_mode(rounding) << ROUNDING_SHIFT;
    const unsigned wanted = (before & ~ROUNDING_BITS) | mode;
    if (wanted != before) {
        _mm_setcsr(wanted);
    }
    return before;
}

static inline void rounding_restore(unsigned before) {
    if ((_mm_getcsr() ^ before) & ROUNDING_BITS) {
        _mm_setcsr((_mm_getcsr() & ~ROUNDING_BITS) | (before & ROUNDING_BITS));
    }
}
#else
static inline unsigned rounding_set(unsigned rounding) {
    const int before = fegetround();
    (void)fesetround(rounding_mode(rounding));
    return (unsigned)before;
}

static inline void rounding_restore(unsigned before) {
    (void)fesetround((int)before);
}
#endif
#endif
