/* The arithmetic of custom_kernel_extended()'s epilogue (custom_kernel.h): scales, activation, outputs. */
#ifndef GPU_EXTENDED_CUH
#define GPU_EXTENDED_CUH

#include "gpu_extended.h"
#include "instructions/ptx.cuh"
#include "silu.cuh"

static __device__ __forceinline__ float number_or_one(const float *pointer) {
    return pointer != nullptr ? *pointer : 1.0f;
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

/* The activation of scaled gate and up.  The comparisons keep a NaN. */
static __device__ __forceinline__ float activate(const struct extended_params &p, float gate, float up) {
    gate = gate > p.limit ? p.limit : gate;
    up = up > p.limit ? p.limit : up;
    up = up < -p.limit ? -p.limit : up;
    const float sigmoid = rcp_approx(1.0f + ex2_approx(-LOG2_E * (p.alpha * gate)));
    return gate * sigmoid * __fadd_rn(up, p.beta);
}

/* Two outputs as bits of fp16 or bf16. */
static __device__ __forceinline__ uint32_t two_halves(const struct extended_params &p, float low, float high) {
    return p.output == CUSTOM_KERNEL_BF16 ? cvt_rn_bf16x2_f32(low, high) : cvt_rn_f16x2_f32(low, high);
}

/* ---- NVFP4 ---- */

/* A group of 16 outputs: its codes, the first in the lowest bits, and its scale factor. */
struct nvfp4_group {
    uint32_t codes[2];
    uint8_t scale;
};

#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
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
/* cvt.rn.satfinite.e2m1x2.f32 of one number, for chips without it.  Below 1, adding 2^22 rounds to halves; from
 * 1 on, 22 of fp32's bits are rounded off. */
static __device__ __forceinline__ uint32_t e2m1_code(float x) {
    const float magnitude = fminf(fabsf(x), 6.0f), subnormals = 4194304.0f; /* fminf makes a NaN 6 */
    const uint32_t rebiased = __float_as_uint(magnitude) - (126u << 23);
    const uint32_t normal = (rebiased + 0x1fffffu + (rebiased >> 22 & 1)) >> 22;
    const uint32_t subnormal = __float_as_uint(__fadd_rn(magnitude, subnormals)) - __float_as_uint(subnormals);
    const uint32_t sign = x == x ? __float_as_uint(x) >> 28 & 8 : 0;
    return sign | (magnitude < 1.0f ? subnormal : normal);
}

/* Eight codes. */
static __device__ __forceinline__ uint32_t e2m1_word(const float *x) {
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        word |= e2m1_code(x[i]) << 4 * i;
    }
    return word;
}
#endif

static __device__ __forceinline__ struct nvfp4_group quantize_group(const float (&values)[NVFP4_GROUP_ELEMS],
                                                                    float scale_c) {
    float largest = fabsf(values[0]);
#pragma unroll
    for (int i = 1; i < NVFP4_GROUP_ELEMS; i++) {
        largest = max_nan_f32(largest, fabsf(values[i]));
    }
    const uint16_t bytes = cvt_rn_satfinite_e4m3x2_f32(largest * scale_c * (1.0f / 6), 0.0f);
    const float held = cvt_f32_f16((uint16_t)cvt_rn_f16x2_e4m3x2(bytes));
    const float factor = bytes == 0 ? 0.0f : __fdiv_rn(scale_c, held);
    float scaled[NVFP4_GROUP_ELEMS];
#pragma unroll
    for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
        scaled[i] = __fmul_rn(values[i], factor);
    }
    return {{e2m1_word(scaled), e2m1_word(scaled + 8)}, (uint8_t)bytes};
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
