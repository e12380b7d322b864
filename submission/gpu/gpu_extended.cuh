/* The arithmetic of custom_kernel_extended()'s epilogue (custom_kernel.h): scales, biases, outputs. */
#ifndef GPU_EXTENDED_CUH
#define GPU_EXTENDED_CUH

#include "device/activation.cuh"
#include "gpu_extended.h"

static __device__ __forceinline__ float number_or_one(const float *pointer, int32_t index = 0) {
    return pointer != nullptr ? pointer[index] : 1.0f;
}

/* The factors of a row's accumulators. */
struct row_factors {
    float gate, up;
};

static __device__ __forceinline__ struct row_factors
find_factors(const struct extended_params &p, float scale_gate, float scale_up, int32_t row) {
    const float token = p.token_scale != nullptr && row < p.m ? p.token_scale[row] : 1.0f;
    return {scale_gate * token, scale_up * token};
}

/* What is added to the scaled accumulators of a column; of a plain product only `gate`. */
struct column_bias {
    float gate, up;
};

/* Without a bias -0, which changes no number that it is added to. */
static __device__ __forceinline__ float bias_or_none(const float *bias, int32_t index, bool exists) {
    return bias != nullptr && exists ? bias[index] : -0.0f;
}

/* The rows of all experts' weights are less than 2^31 (gpu_check_experts). */
static __device__ __forceinline__ struct column_bias find_bias(const struct extended_params &p, int32_t column,
                                                               int32_t expert = 0) {
    const int32_t index = expert * p.n + column;
    return {bias_or_none(p.bias_gate, index, column < p.n), bias_or_none(p.bias_up, index, column < p.n)};
}

static __device__ __forceinline__ float scaled(float acc, float factor, float bias) {
    return __fadd_rn(__fmul_rn(acc, factor), bias);
}

/* c of a column's accumulators of gate and up. */
template <bool silu = false>
static __device__ __forceinline__ float finish_gated(const struct extended_params &p, float gate, float up,
                                                     const struct row_factors &factors,
                                                     const struct column_bias &bias) {
    return activate_gated<silu>(p.activation, scaled(gate, factors.gate, bias.gate),
                                scaled(up, factors.up, bias.up));
}

/* Two outputs as bits of fp16 or bf16. */
static __device__ __forceinline__ uint32_t two_halves(const struct extended_params &p, float low, float high) {
    return p.output == CUSTOM_KERNEL_BF16 ? cvt_rn_bf16x2_f32(low, high) : cvt_rn_f16x2_f32(low, high);
}

/* Many, two in a word. */
template <int count>
static __device__ __forceinline__ void halves_of(const struct extended_params &p, const float (&values)[count],
                                                 uint32_t (&both)[count / 2]) {
    if (p.output == CUSTOM_KERNEL_BF16) {
#pragma unroll
        for (int i = 0; i < count; i += 2) {
            both[i / 2] = cvt_rn_bf16x2_f32(values[i], values[i + 1]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < count; i += 2) {
        both[i / 2] = cvt_rn_f16x2_f32(values[i], values[i + 1]);
    }
}

/* ---- NVFP4 ---- */

/* A group of 16 outputs: its codes, the first in the lowest bits, and its scale factor. */
struct nvfp4_group {
    uint32_t codes[2];
    uint8_t scale;
};

#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) ||                              \
    defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL)
/* Eight e2m1 codes.  PTX ISA, cvt: to nearest even, at most 6; NaN becomes +6. */
static __device__ __forceinline__ uint32_t e2m1_word(const float *x) {
    uint32_t word;
    asm("{\n\t.reg .b8 byte0, byte1, byte2, byte3;\n\t"
        "cvt.rn.satfinite.e2m1x2.f32 byte0, %2, %1;\n\tcvt.rn.satfinite.e2m1x2.f32 byte1, %4, %3;\n\t"
        "cvt.rn.satfinite.e2m1x2.f32 byte2, %6, %5;\n\tcvt.rn.satfinite.e2m1x2.f32 byte3, %8, %7;\n\t"
        "mov.b32 %0, {byte0, byte1, byte2, byte3};\n\t}"
        : "=r"(word)
        : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]));
    return word;
}

#else
/* A word whose low byte is cvt.rn.satfinite.e2m1x2.f32's code of |x|, for chips without it.  The code is
 * round(2 |x|) below 2, round(|x|) + 2 from 2 to 4 and round(|x| / 2) + 4 above: the least of the three. Adding
 * 2^23 rounds to an integer and leaves it in the low bits.  Bytes 1 and 2 are 0. */
static __device__ __forceinline__ uint32_t e2m1_below_7(float magnitude) {
    const float integers = 8388608.0f;
    const float below_2 = __fmaf_rn(magnitude, 2.0f, integers), below_4 = __fadd_rn(magnitude, integers + 2),
                from_4 = __fmaf_rn(magnitude, 0.5f, integers + 4);
    return __float_as_uint(fminf(fminf(below_2, below_4), from_4));
}

static __device__ __forceinline__ uint32_t e2m1_magnitude(float x) {
    return e2m1_below_7(fminf(fabsf(x), 6.0f)); /* fminf makes a NaN 6 */
}

/* Bytes `byte` of four words. */
static __device__ __forceinline__ uint32_t bytes_of(uint32_t byte, uint32_t w0, uint32_t w1, uint32_t w2,
                                                    uint32_t w3) {
    const uint32_t of_two = byte | (byte + 4) << 4;
    return prmt(prmt(w0, w1, of_two), prmt(w2, w3, of_two), 0x5410);
}

/* Eight codes, of which words have the magnitudes in their low bytes; the signs are x's. */
static __device__ __forceinline__ uint32_t join_codes(const uint32_t (&magnitude)[8], const float *x) {
    uint32_t pairs[4], signs[2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        pairs[i] = magnitude[2 * i] + (magnitude[2 * i + 1] << 4);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        signs[i] = bytes_of(3, __float_as_uint(x[i]), __float_as_uint(x[i + 2]), __float_as_uint(x[i + 4]),
                            __float_as_uint(x[i + 6]));
    }
    return bytes_of(0, pairs[0], pairs[1], pairs[2], pairs[3]) | (signs[0] >> 4 & 0x08080808u) |
           (signs[1] & 0x80808080u);
}

/* Eight codes of products: a NaN among them has no sign, since arithmetic only makes the NaN 0x7fffffff (PTX
 * ISA, Floating Point Instructions). */
static __device__ __forceinline__ uint32_t e2m1_word(const float *x) {
    uint32_t magnitude[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        magnitude[i] = e2m1_magnitude(x[i]);
    }
    return join_codes(magnitude, x);
}

#define E2M1_BY_ARITHMETIC
#endif

/* The codes of products with `factor`. */
template <int numbers>
static __device__ __forceinline__ void e2m1_scaled_words(const float (&values)[numbers], float factor,
                                                         uint32_t (&codes)[numbers / 8]) {
    float scaled[numbers];
#pragma unroll
    for (int i = 0; i < numbers; i++) {
        scaled[i] = __fmul_rn(values[i], factor);
    }
#pragma unroll
    for (int i = 0; i < numbers / 8; i++) {
        codes[i] = e2m1_word(scaled + 8 * i);
    }
}

/* The same; `largest` is the largest of the group's magnitudes.  Where arithmetic makes the codes and it shows
 * that none of them is NaN or needs a limit, the factor is not negative, and signs are the values' own. */
template <int numbers>
static __device__ __forceinline__ void e2m1_words(const float (&values)[numbers], float factor, float largest,
                                                  uint32_t (&codes)[numbers / 8]) {
#ifdef E2M1_BY_ARITHMETIC
    if (__fmul_rn(largest, factor) < 7.0f) {
#pragma unroll
        for (int i = 0; i < numbers / 8; i++) {
            uint32_t magnitude[8];
#pragma unroll
            for (int j = 0; j < 8; j++) {
                magnitude[j] = e2m1_below_7(__fmul_rn(fabsf(values[8 * i + j]), factor));
            }
            codes[i] = join_codes(magnitude, values + 8 * i);
        }
        return;
    }
#else
    (void)largest;
#endif
    e2m1_scaled_words(values, factor, codes);
}

/* A scale that is not positive and finite becomes NaN, which makes every scale factor NaN (custom_kernel.h). */
static __device__ __forceinline__ float quantization_scale(float scale) {
    return scale > 0.0f && scale < __int_as_float(0x7f800000) ? scale : __int_as_float(0x7fffffff);
}

/* A group's scale factor and what its numbers are multiplied by. */
struct group_scale {
    uint8_t byte;
    bool saturated; /* 448 cut the scale factor */
    float factor;
};

#define E4M3_MOST       448.0f
#define E4M3_MAGNITUDES 128

static __device__ __forceinline__ float wanted_scale(float largest, float scale) {
    return __fmul_rn(__fmul_rn(largest, scale), 1.0f / 6);
}

/* Below E4M3_MAGNITUDES, since no scale factor is negative. */
static __device__ __forceinline__ uint32_t scale_byte(float wanted) {
    return cvt_rn_satfinite_e4m3x2_f32(wanted, 0.0f);
}

static __device__ __forceinline__ float factor_of_scale(uint32_t byte, float scale) {
    const float held = cvt_f32_f16((uint16_t)cvt_rn_f16x2_e4m3x2((uint16_t)byte));
    return byte == 0 ? 0.0f : __fdiv_rn(scale, held);
}

static __device__ __forceinline__ struct group_scale scale_of_group(float largest, float scale) {
    const float wanted = wanted_scale(largest, scale);
    const uint32_t byte = scale_byte(wanted);
    return {(uint8_t)byte, wanted > E4M3_MOST, factor_of_scale(byte, scale)};
}

static __device__ __forceinline__ struct nvfp4_group quantize_group(const float (&values)[NVFP4_GROUP_ELEMS],
                                                                    float scale_c) {
    float largest = fabsf(values[0]);
#pragma unroll
    for (int i = 1; i < NVFP4_GROUP_ELEMS; i++) {
        largest = max_nan_f32(largest, fabsf(values[i]));
    }
    const struct group_scale found = scale_of_group(largest, quantization_scale(scale_c));
    float scaled[NVFP4_GROUP_ELEMS];
#pragma unroll
    for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
        scaled[i] = __fmul_rn(values[i], found.factor);
    }
    return {{e2m1_word(scaled), e2m1_word(scaled + 8)}, found.byte};
}

/* Stores a row's group that begins at `column`; both exist. */
static __device__ __forceinline__ void store_group(const struct extended_params &p, int32_t row, int32_t column,
                                                   const struct nvfp4_group &group) {
    uint32_t *to = (uint32_t *)((uint8_t *)p.c + (int64_t)row * (p.n / 2) + column / 2);
    *(uint2 *)to = make_uint2(group.codes[0], group.codes[1]);
    p.sfc[scale_offset(p.sfc_layout, row, column / NVFP4_GROUP_ELEMS, p.n / NVFP4_GROUP_ELEMS)] = group.scale;
}

/* Zeroes the scale factor of a group in a row past the last one, if the layout has a place for it. */
static __device__ __forceinline__ void pad_group(const struct extended_params &p, int32_t row, int32_t column) {
    if (p.sfc_layout == CUSTOM_KERNEL_SCALES_BLOCKED && row < scale_tile_rows(p.m) * SCALE_TILE_ROWS) {
        p.sfc[scale_offset(p.sfc_layout, row, column / NVFP4_GROUP_ELEMS, p.n / NVFP4_GROUP_ELEMS)] = 0;
    }
}

/* Zeroes the scale factors of rows past the last one, for the groups in `columns` columns from first_column on;
 * the work is shared by `threads` threads, of which this is number `thread`. */
static __device__ __forceinline__ void pad_scales(const struct extended_params &p, int32_t first_column,
                                                  int32_t columns, int thread, int threads) {
    const int groups = min(columns, p.n - first_column) / NVFP4_GROUP_ELEMS;
    const int rows = (int)(scale_tile_rows(p.m) * SCALE_TILE_ROWS - p.m);
    for (int i = thread; i < rows * groups; i += threads) {
        pad_group(p, p.m + i / groups, first_column + i % groups * NVFP4_GROUP_ELEMS);
    }
}

#endif
