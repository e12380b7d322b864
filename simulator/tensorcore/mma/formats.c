#include "formats.h"

#include <math.h>

/* PTX ISA, Alternate Floating-Point Data Formats; NaN results: Data Movement and Conversion: cvt. */
const struct tc_format_info tc_formats[TC_FORMATS] = {
    [TC_E2M1] = {"e2m1", 4, 1, 0, 2, 0x7, 0x7, 0x7},
    [TC_E2M3] = {"e2m3", 6, 3, 0, 2, 0x1f, 0x1f, 0x1f},
    [TC_E3M2] = {"e3m2", 6, 2, -2, 4, 0x1f, 0x1f, 0x1f},
    [TC_E4M3] = {"e4m3", 8, 3, -6, 8, 0x7e, 0x7f, 0x7f},
    [TC_E5M2] = {"e5m2", 8, 2, -14, 15, 0x7b, 0x7f, 0x7c},
    [TC_UE8M0] = {"ue8m0", 8, 0, -127, 127, 0xfe, 0xff, 0xff},
    [TC_UE4M3] = {"ue4m3", 8, 3, -6, 8, 0x7e, 0x7f, 0x7f},
    [TC_F16] = {"f16", 16, 10, -14, 15, 0x7bff, 0x7fff, 0x7c00},
    [TC_BF16] = {"bf16", 16, 7, -126, 127, 0x7f7f, 0x7fff, 0x7f80},
    [TC_TF32] = {"tf32", 32, 10, -126, 127, 0x7f7fe000, 0x7fffe000, 0x7f800000},
    [TC_F32] = {"f32", 32, 23, -126, 127, 0x7f7fffff, 0x7fffffff, 0x7f800000},
    [TC_S8] = {"s8", 8, 0, 0, 0, 0, 0, 0},
    [TC_U8] = {"u8", 8, 0, 0, 0, 0, 0, 0},
    [TC_S32] = {"s32", 32, 0, 0, 0, 0, 0, 0},
};

static bool wide(enum tc_format format) {
    return format == TC_TF32 || format == TC_F32;
}

bool tc_is_nan(enum tc_format format, uint32_t code) {
    switch (format) {
    case TC_E4M3:
    case TC_UE4M3:
        return (code & 0x7f) == 0x7f;
    case TC_E5M2:
        return (code & 0x7f) > 0x7c;
    case TC_UE8M0:
        return (code & 0xff) == 0xff;
    case TC_F16:
        return (code & 0x7fff) > 0x7c00;
    case TC_BF16:
        return (code & 0x7fff) > 0x7f80;
    case TC_TF32: /* the low 13 bits are ignored */
        return (code & 0x7fffe000) > 0x7f800000;
    case TC_F32:
        return (code & 0x7fffffff) > 0x7f800000;
    default:
        return false;
    }
}

float tc_to_f32(enum tc_format format, uint32_t code) {
    const struct tc_format_info *f = &tc_formats[format];
    if (format == TC_F32) {
        return tc_f32_of_bits(code);
    }
    if (tc_is_nan(format, code)) {
        return tc_f32_of_bits(TC_CANONICAL_NAN);
    }
    switch (format) {
    case TC_S8:
        return (int8_t)code;
    case TC_U8:
        return (uint8_t)code;
    case TC_S32:
        return (float)(int32_t)code;
    case TC_TF32:
        return tc_f32_of_bits(code & ~0x1fffu);
    case TC_BF16:
        return tc_f32_of_bits(code << 16);
    case TC_UE8M0:
        return ldexpf(1.0f, (int)(code & 0xff) - 127);
    default:
        break;
    }
    uint32_t magnitude = code & ((1u << (f->bits - 1)) - 1);
    bool negative = format != TC_UE4M3 && (code >> (f->bits - 1) & 1);
    float x;
    if (f->infinity != f->nan && magnitude == f->infinity) {
        x = INFINITY;
    } else {
        uint32_t exponent = magnitude >> f->fraction;
        uint32_t fraction = magnitude & ((1u << f->fraction) - 1);
        uint32_t significand = exponent ? fraction | 1u << f->fraction : fraction;
        int power = f->min_exponent - f->fraction + (exponent ? (int)exponent - 1 : 0);
        x = ldexpf((float)significand, power);
    }
    return negative ? -x : x;
}

/* PTX ISA, cvt, .ue8m0x2: the sign is ignored, values below 2^-127 become code 0; only .rz and .rp exist. */
static uint32_t to_ue8m0(uint32_t magnitude, enum tc_round round, unsigned flags) {
    if (magnitude > 0x7f800000) {
        return 0xff;
    }
    uint32_t code = magnitude >> 23;
    bool rounds_up = round == TC_RP && (magnitude & 0x7fffff) && magnitude > 0x00400000;
    code += rounds_up;
    return code == 0xff && (flags & TC_SATFINITE) ? 0xfe : code;
}

/* True if the `lost` low bits plus the random bits, both as fractions of the last kept bit, carry into it. */
static bool carries(uint32_t significand, int lost, uint32_t random) {
    if (lost <= 0 || lost > 63) { /* nothing is lost, or too little to carry */
        return false;
    }
    uint64_t part = significand & ((1ull << lost) - 1);
    uint64_t fraction = lost > 32 ? part >> (lost - 32) : part << (32 - lost);
    return fraction + random > UINT32_MAX;
}

uint32_t tc_from_f32(enum tc_format format, float x, enum tc_round round, unsigned flags, uint32_t random) {
    const struct tc_format_info *f = &tc_formats[format];
    uint32_t bits = tc_bits_of_f32(x), magnitude = bits & 0x7fffffff;
    bool negative = bits >> 31;
    if (format == TC_UE8M0) {
        return to_ue8m0(magnitude, round, flags);
    }
    if (magnitude > 0x7f800000) { /* measured on an H200: rna.tf32 keeps a NaN's upper bits */
        return format == TC_TF32 && round == TC_RNA ? bits & ~0x1fffu : f->nan;
    }
    if (negative && (flags & TC_RELU)) {
        return 0;
    }
    if (format == TC_UE4M3) {
        negative = false;
    }
    bool saturates = (flags & TC_SATFINITE) || f->nan == f->max_finite;
    uint32_t sign = negative && format != TC_UE4M3 ? 1u << (f->bits - 1) : 0;
    if (magnitude == 0x7f800000) {
        return sign | (saturates ? f->max_finite : f->infinity);
    }

    /* The value is significand * 2^(exponent - 23). `lost` is the number of its low bits below the format's
     * last bit. */
    int exponent = magnitude >> 23 ? (int)(magnitude >> 23) - 127 : -126;
    uint32_t significand = magnitude >> 23 ? (magnitude & 0x7fffff) | 0x800000 : magnitude;
    int lost = 23 - f->fraction + (exponent < f->min_exponent ? f->min_exponent - exponent : 0);
    int dropped = lost > 31 ? 31 : lost; /* beyond 24 bits all of the significand is below half a unit */
    uint64_t unit = 1ull << dropped, rest = significand & (unit - 1), kept = significand >> dropped;
    bool up = false;
    switch (round) {
    case TC_RN:
        up = rest > unit / 2 || (rest == unit / 2 && dropped && (kept & 1));
        break;
    case TC_RNA:
        up = dropped && rest >= unit / 2;
        break;
    case TC_RZ:
        break;
    case TC_RP:
        up = rest && !negative;
        break;
    case TC_RM:
        up = rest && negative;
        break;
    case TC_RS:
        up = carries(significand, lost, random);
        break;
    }
    kept += up;

    /* `kept` counts units of 2^(max(exponent, min_exponent) - fraction). Adding it to the shifted exponent
     * field carries into the exponent where rounding reaches the next binade or turns a subnormal into a normal
     * number. */
    uint64_t field = exponent < f->min_exponent ? 0 : (uint64_t)(exponent - f->min_exponent);
    uint64_t code = (field << f->fraction) + kept;
    if (wide(format)) {
        code <<= 23 - f->fraction;
    }
    if (code > f->max_finite) {
        /* Rounding toward zero stays finite; the other modes overflow to infinity. */
        bool truncates = round == TC_RZ || (round == TC_RP && negative) || (round == TC_RM && !negative);
        return sign | (saturates || truncates ? f->max_finite : f->infinity);
    }
    return sign | (uint32_t)code;
}
