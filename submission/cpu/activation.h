/* The activations of custom_kernel.h in fp32: the CPU's only place that knows them.  Branch-free, so that the
 * compiler vectorises loops over it for each instruction set; without fused operations, so that all instruction
 * sets give the same bits. */
#ifndef CPU_ACTIVATION_H
#define CPU_ACTIVATION_H

#include "../core/backend.h"
#include "rounding.h"

/* e^x within 2 ulp: infinity above 88.8, 0 or subnormal below -87.4, NaN for NaN.
 * x = n ln 2 + r with |r| <= ln 2 / 2, e^r by its Taylor polynomial (error under 2^-26), then times 2^n. */
static inline float exp_fp32(float x) {
    const float log2_e = 0x1.715476p0f;
    /* ln 2 in two parts; the product of n with the first is exact. */
    const float ln2_high = 0x1.62e400p-1f, ln2_low = 0x1.7f7d1cp-20f;
    const float round_to_integer = 0x1.8p23f; /* adding it puts n into the low mantissa bits */
    const float limit = 126.0f;               /* e^126 overflows, e^-126 vanishes; NaN passes both tests */
    x = x > limit ? limit : x;
    x = x < -limit ? -limit : x;
    float shifted = x * log2_e + round_to_integer;
    float n = shifted - round_to_integer;
    float r = (x - n * ln2_high) - n * ln2_low;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    /* 2^n as two factors, because n, from -182 to 182, exceeds one exponent field. */
    int32_t exponent = (int32_t)(float_bits(shifted) - float_bits(round_to_integer));
    int32_t half = exponent >> 1;
    float scale = float_of_bits((uint32_t)(127 + half) << 23);
    float rest = float_of_bits((uint32_t)(127 + exponent - half) << 23);
    return p * scale * rest;
}

/* The activation of x; NaN stays NaN. */
static inline float activated(struct activation a, float x) {
    const float most = 0x1p100f; /* of x^2, so that an infinite one leaves a cubic of 0 alone */
    const float square = x * x, positive = x < 0 ? 0 : x;
    const float slope = a.cubic * (square > most ? most : square) + a.alpha;
    const float swish = x / (1.0f + exp_fp32(-(slope * x)));
    return a.function == CUSTOM_KERNEL_ACTIVATION_RELU2 ? positive * positive : swish;
}

/* c of gate and up. */
static inline float activated_gate(struct activation a, float gate, float up) {
    gate = gate > a.limit ? a.limit : gate;
    up = up > a.limit ? a.limit : up;
    up = up < -a.limit ? -a.limit : up;
    return activated(a, gate) * (up + a.beta);
}

static inline float silu_times(float gate, float up) {
    return gate / (1.0f + exp_fp32(-gate)) * up;
}

#endif
