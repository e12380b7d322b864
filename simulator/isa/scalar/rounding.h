/* The host's rounding mode around an operation.  fesetround also sets the x87 unit, which takes a hundred
 * cycles. */
#ifndef SIM_ISA_ROUNDING_H
#define SIM_ISA_ROUNDING_H

#include <fenv.h>

#ifdef __FMA__ /* then no operation here is a call of the C library that uses the x87 unit */
#include <immintrin.h>

#define ROUNDING_SHIFT 3 /* HW: MXCSR has the x87 control word's rounding bits, three places higher */
#define ROUNDING_BITS  0x6000u

/* Sets one of FE_TONEAREST ... and returns what rounding_restore takes. */
static inline unsigned rounding_set(int mode) {
    const unsigned before = _mm_getcsr(), wanted = (before & ~ROUNDING_BITS) | (unsigned)mode << ROUNDING_SHIFT;
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
static inline unsigned rounding_set(int mode) {
    const int before = fegetround();
    (void)fesetround(mode);
    return (unsigned)before;
}

static inline void rounding_restore(unsigned before) {
    (void)fesetround((int)before);
}
#endif
#endif
