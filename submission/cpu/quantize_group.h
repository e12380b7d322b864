/* NVFP4 of a group of 16 numbers (custom_kernel.h, NVFP4 output), in loops that compilers turn into vector
 * instructions: each instruction set compiles its own copy. */
#ifndef CPU_QUANTIZE_GROUP_H
#define CPU_QUANTIZE_GROUP_H

#include <math.h>
#include <stdbool.h>

#include "kernel_set.h"
#include "rounding.h"

#define E4M3_MOST 448.0f

static inline float positive_and_finite(float number) {
    return number > 0 && number < INFINITY ? number : NAN;
}

/* The number at `scale`; NaN unless it is positive and finite. */
static inline float read_quantization_scale(const float *scale) {
    return positive_and_finite(scale != NULL ? *scale : 1.0f);
}

/* Writes the group's eight bytes of codes and its scale factor; returns true if 448 cut that.
 *
 * The code of a magnitude a is round(2 a) below 2, round(a) + 2 from 2 to 4 and round(a / 2) + 4 above: the
 * least of the three.  Adding 2^23 rounds to an integer, and leaves it in the low bits. */
static inline bool quantize_group(const float *values, float scale, uint8_t *codes, uint8_t *scale_byte) {
    const float integers = 0x1p23f, most = 6;
    const uint32_t sign_bit = 0x80000000u;
    uint32_t largest_bits = 0, nibbles[NVFP4_GROUP_ELEMS];
    for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) { /* as integers, so that a NaN is the largest */
        const uint32_t magnitude = float_bits(values[i]) & ~sign_bit;
        largest_bits = magnitude > largest_bits ? magnitude : largest_bits;
    }
    const float wanted = float_of_bits(largest_bits) * scale * (1.0f / 6);
    const uint8_t byte = e4m3_byte(wanted);
    const float factor = byte == 0 ? 0.0f : scale / scale_value(byte);
    for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
        const float scaled = values[i] * factor;
        const uint32_t bits = float_bits(scaled);
        float magnitude = float_of_bits(bits & ~sign_bit);
        magnitude = magnitude < most ? magnitude : most; /* NaN becomes 6 */
        const float below_2 = magnitude * 2 + integers, below_4 = magnitude + (integers + 2),
                    from_4 = magnitude * 0.5f + (integers + 4);
        float code = below_2 < below_4 ? below_2 : below_4;
        code = code < from_4 ? code : from_4;
        nibbles[i] = (float_bits(code) & 7) | (scaled == scaled ? bits >> 28 & 8 : 0);
    }
    for (int i = 0; i < NVFP4_GROUP_ELEMS / 2; i++) {
        codes[i] = (uint8_t)(nibbles[2 * i] | nibbles[2 * i + 1] << 4);
    }
    *scale_byte = byte;
    return wanted > E4M3_MOST;
}

#endif
