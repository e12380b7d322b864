/* Numbers of other formats as fp32, and fp32 to the output formats, each rounded to nearest even. */
#ifndef CPU_ROUNDING_H
#define CPU_ROUNDING_H

#include <stdint.h>
#include <string.h>

#include "../custom_kernel.h"

static inline uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* fp16 bits as fp32.  Subnormals become an integer times 2^-24, because no mode flushes that. */
static inline float float_of_half(uint16_t half) {
    const uint32_t magnitude = half & 0x7fffu, rebias = 112u << 23, sign = (uint32_t)(half & 0x8000u) << 16;
    const float subnormal = (float)(int32_t)magnitude * 0x1p-24f;
    uint32_t bits = (magnitude << 13) + rebias;
    bits += magnitude >= 0x7c00u ? rebias : 0; /* infinity and NaN */
    bits = magnitude < 0x400u ? float_bits(subnormal) : bits;
    return float_of_bits(bits | sign);
}

/* Number `index` of an array of a type of enum custom_kernel_output. */
static inline float number_at(const void *numbers, int64_t index, int32_t type) {
    if (type == CUSTOM_KERNEL_FP32) {
        return ((const float *)numbers)[index];
    }
    const uint16_t bits = ((const uint16_t *)numbers)[index];
    return type == CUSTOM_KERNEL_BF16 ? float_of_bits((uint32_t)bits << 16) : float_of_half(bits);
}

/* fp16 bits of x: overflow to infinity, NaN to a quiet NaN of the same sign. */
static inline uint16_t half_bits(float x) {
    const uint32_t fp32_infinity = 0x7f800000u, fp16_infinity = 0x7c00u, fp16_nan = 0x7e00u;
    const uint32_t overflow = 0x477ff000u;   /* 65520: halfway from the largest fp16 to 65536 */
    const uint32_t min_normal = 0x38800000u; /* 2^-14 */
    uint32_t bits = float_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > fp32_infinity) {
        return (uint16_t)(sign | fp16_nan);
    }
    if (magnitude >= overflow) {
        return (uint16_t)(sign | fp16_infinity);
    }
    if (magnitude < min_normal) {
        /* Adding 1/2 aligns the value to fp16's subnormal grid, 2^-24, and rounds it there. */
        return (uint16_t)(sign | (float_bits(float_of_bits(magnitude) + 0.5f) - float_bits(0.5f)));
    }
    /* Rebias the exponent by 127 - 15, then round off 13 bits; a carry into the exponent is correct. */
    uint32_t rebiased = magnitude - (112u << 23);
    return (uint16_t)(sign | (rebiased + 0xfffu + (rebiased >> 13 & 1)) >> 13);
}

/* bf16 bits of x: overflow to infinity, NaN to a quiet NaN of the same sign. */
static inline uint16_t bfloat_bits(float x) {
    const uint32_t fp32_infinity = 0x7f800000u, bf16_nan = 0x7fc0u;
    uint32_t bits = float_bits(x);
    if ((bits & 0x7fffffffu) > fp32_infinity) {
        return (uint16_t)((bits >> 16 & 0x8000u) | bf16_nan);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* e4m3 byte of x, which is +0, positive or NaN: at most 448, NaN to NaN. */
static inline uint8_t e4m3_byte(float x) {
    const float most = 448, min_normal = 0x1p-6f;
    const float subnormals = 0x1p14f; /* its ulp, 2^-9, is the spacing of e4m3's subnormals */
    if (x != x) {
        return 0x7f;
    }
    if (x >= most) {
        return 0x7e;
    }
    if (x < min_normal) {
        return (uint8_t)(float_bits(x + subnormals) - float_bits(subnormals));
    }
    /* Rebias the exponent by 127 - 7, then round off 20 bits. */
    uint32_t rebiased = float_bits(x) - (120u << 23);
    return (uint8_t)((rebiased + 0x7ffffu + (rebiased >> 20 & 1)) >> 20);
}

#endif
