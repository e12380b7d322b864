/* Conversions between f32 and the bits of f16 and bf16, for scalar instructions. */
#ifndef TENSOR_HALF_H
#define TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

__extension__ typedef _Float16 half_t;

static inline float f16_to_f32(uint32_t bits) {
    uint16_t narrow = (uint16_t)bits;
    half_t half;
    memcpy(&half, &narrow, sizeof half);
    return (float)half;
}

/* Rounds to nearest even; NaN becomes PTX's canonical 0x7fff, here and for bf16. */
static inline uint16_t f32_to_f16(float x) {
    half_t half = (half_t)x;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return x == x ? bits : 0x7fff;
}

static inline float bf16_to_f32(uint32_t bits) {
    uint32_t wide = bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static inline uint16_t f32_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) {
        return 0x7fff;
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
