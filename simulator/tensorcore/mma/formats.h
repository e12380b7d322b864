/* Conversions between f32 and the number formats of the tensor cores and of PTX `cvt`, one code at a time.
 *
 * A code is the format's bits in the low end of a uint32_t.  Every format converts to f32 exactly, so tc_to_f32
 * does not round; tc_from_f32 has the rounding modes of `cvt`.  For packed forms (e4m3x2, e2m1x4, ...) the
 * caller converts each element; the first source goes to the high end. */
#ifndef TENSOR_FORMATS_H
#define TENSOR_FORMATS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum tc_format {
    TC_E2M1,
    TC_E2M3,
    TC_E3M2,
    TC_E4M3,
    TC_E5M2,
    TC_UE8M0, /* a power of two, no sign, 0xff is NaN */
    TC_UE4M3, /* e4m3 with the sign bit ignored: 0x7f and 0xff are NaN */
    TC_F16,
    TC_BF16,
    TC_TF32, /* 32 bits, the low 13 ignored */
    TC_F32,
    TC_S8, /* integers: only for MMAs */
    TC_U8,
    TC_S32,
    TC_FORMATS,
};

struct tc_format_info {
    const char *name;
    int bits;         /* size of a code */
    int fraction;     /* explicit significand bits */
    int min_exponent; /* exponent of the smallest normal number and of every subnormal */
    int max_exponent; /* exponent of the largest finite number */
    uint32_t max_finite;
    uint32_t nan;      /* result of converting a NaN; max_finite if the format has none */
    uint32_t infinity; /* equals `nan` if the format has no infinity */
};

enum tc_round {
    TC_RN,  /* to nearest, ties to even */
    TC_RNA, /* to nearest, ties away from zero: cvt.rna.tf32.f32 */
    TC_RZ,
    TC_RP, /* up: cvt.rp.ue8m0x2 */
    TC_RM,
    TC_RS, /* stochastic: random bits are added below the last kept bit */
};

enum {
    TC_SATFINITE = 1, /* overflow gives the largest finite number of the sign */
    TC_RELU = 2,      /* negative results become +0 */
};

extern const struct tc_format_info tc_formats[TC_FORMATS];

/* PTX's canonical NaN of f32. */
#define TC_CANONICAL_NAN 0x7fffffffu

float tc_to_f32(enum tc_format format, uint32_t code);

/* `random` is for TC_RS only; its top bit is worth half a unit in the last place of the result. Formats without
 * infinity and NaN (e2m1, e2m3, e3m2) always saturate. */
uint32_t tc_from_f32(enum tc_format format, float x, enum tc_round round, unsigned flags, uint32_t random);

bool tc_is_nan(enum tc_format format, uint32_t code);

static inline float tc_f32_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t tc_bits_of_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#endif
