/* fp16 and bf16 values as bits. */
#ifndef SIM_ISA_HALF_H
#define SIM_ISA_HALF_H

#include <stdint.h>
#include <string.h>

struct decoder;

__extension__ typedef _Float16 half_t;

static inline float f16_to_f32(uint32_t bits) {
    uint16_t narrow = (uint16_t)bits;
    half_t half;
    memcpy(&half, &narrow, sizeof half);
    return (float)half;
}

/* To nearest even; NaN becomes PTX's canonical 0x7fff. */
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

/* add, sub, mul, fma, min, max, abs, neg, ex2, tanh of f16, f16x2, bf16 and bf16x2. */
void decode_half(struct decoder *d, const char *name, unsigned type);

#endif
