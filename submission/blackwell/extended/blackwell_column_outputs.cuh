/* Outputs of transposed accumulators, whose rows are rows of B: a lane has a column of C.
 *
 * A lane gets the sums of TRANSPOSED_COLUMNS rows of C at a time, of gate or of up if the product is gated:
 * gate and up of an output are in lanes of one warp. */
#ifndef BLACKWELL_COLUMN_OUTPUTS_CUH
#define BLACKWELL_COLUMN_OUTPUTS_CUH

#include "../../gpu/gpu_extended.cuh"
#include "../grouped/blackwell_transposed_gemm.cuh"

namespace blackwell {

#define OUTPUT_ROWS (TRANSPOSED_COLUMNS / 2) /* rows of C that a lane has at a time, all of one column */

/* A lane's column of C, and the lanes that are far from it by gate and up, and by half a group of columns. */
struct lane_column {
    int32_t column;
    int up_bit, half_bit;
};

/* In each eight lanes, four-bit part i of lane j's word goes to part j of lane i's. */
static __device__ __forceinline__ uint32_t transpose_codes(uint32_t word) {
#pragma unroll
    for (int bit = 1; bit < OUTPUT_ROWS; bit *= 2) {
        const uint32_t low = bit == 1 ? 0x0f0f0f0fu : bit == 2 ? 0x00ff00ffu : 0x0000ffffu;
        const uint32_t other = shfl_sync_bfly(word, bit);
        word = (threadIdx.x & bit) != 0 ? (word & ~low) | (other >> 4 * bit & low)
                                        : (word & low) | (other & low) << 4 * bit;
    }
    return word;
}

/* Stores a lane's outputs of rows from `row` on, those before row_end, as NVFP4.  16 lanes have a group of each
 * row; after the transposition each lane has eight codes of one row. */
static __device__ __forceinline__ void store_codes(const struct extended_params &p,
                                                   const struct lane_column &at, int32_t row, int32_t row_end,
                                                   float scale_c, const float (&values)[OUTPUT_ROWS]) {
    const int own = threadIdx.x % OUTPUT_ROWS;
    float scaled[OUTPUT_ROWS];
    uint32_t scale = 0; /* of this lane's own row */
#pragma unroll
    for (int i = 0; i < OUTPUT_ROWS; i++) {
        float largest = fabsf(values[i]);
#pragma unroll
        for (int bit = 1; bit < OUTPUT_ROWS; bit *= 2) {
            largest = max_nan_f32(largest, __uint_as_float(shfl_sync_bfly(__float_as_uint(largest), bit)));
        }
        largest = max_nan_f32(largest, __uint_as_float(shfl_sync_bfly(__float_as_uint(largest), at.half_bit)));
        const struct group_scale found = scale_of_group(largest, scale_c);
        scaled[i] = __fmul_rn(values[i], found.factor);
        scale = i == own ? found.byte : scale;
    }
    const uint32_t codes = transpose_codes(e2m1_word(scaled));
    const int32_t column = at.column - own;
    row += own;
    if (row < row_end && column < p.n) {
        *(uint32_t *)((uint8_t *)p.c + (int64_t)row * (p.n / 2) + column / 2) = codes;
        if (column % NVFP4_GROUP_ELEMS == 0) {
            p.sfc[scale_offset(p.sfc_layout, row, column / NVFP4_GROUP_ELEMS, p.n / NVFP4_GROUP_ELEMS)] =
                (uint8_t)scale;
        }
    }
}

/* The same as fp16 or bf16; neighbouring lanes have neighbouring columns. */
static __device__ __forceinline__ void store_halves(const struct extended_params &p, int32_t column,
                                                    int32_t row, int32_t row_end,
                                                    const float (&values)[OUTPUT_ROWS]) {
    const bool even = p.n % 2 == 0; /* rows of C start at whole words */
    uint32_t both[OUTPUT_ROWS / 2];
    halves_of(p, values, both);
    row += even ? threadIdx.x % 2 : 0;
    uint16_t *to = (uint16_t *)p.c + (int64_t)row * p.n + column;
    if (even) {
#pragma unroll
        for (int i = 0; i < OUTPUT_ROWS; i += 2, to += 2 * (int64_t)p.n) {
            store_two_rows(to, both[i / 2], row + i < row_end && column < p.n);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < OUTPUT_ROWS; i++, to += p.n) {
        if (row + i < row_end && column < p.n) {
            *to = (uint16_t)(both[i / 2] >> i % 2 * 16);
        }
    }
}

/* The numbers of a product, its biases of a lane's column, and the end of the rows of C that exist. */
struct column_outputs {
    float scale_gate, scale_up, scale_c;
    struct column_bias bias;
    int32_t row_end;
};

static __device__ __forceinline__ void store_outputs(const struct extended_params &p,
                                                     const struct lane_column &at,
                                                     const struct column_outputs &outputs, int32_t row,
                                                     const float (&values)[OUTPUT_ROWS]) {
    if (p.output == CUSTOM_KERNEL_NVFP4) {
        store_codes(p, at, row, outputs.row_end, outputs.scale_c, values);
    } else {
        store_halves(p, at.column, row, outputs.row_end, values);
    }
}

/* The scales of the tokens of rows from `row` on. */
static __device__ __forceinline__ void token_scales(const struct extended_params &p, int32_t row,
                                                    float (&scales)[OUTPUT_ROWS]) {
#pragma unroll
    for (int i = 0; i < OUTPUT_ROWS; i++) {
        scales[i] = 1.0f;
    }
    if (p.token_scale != nullptr) {
#pragma unroll
        for (int i = 0; i < OUTPUT_ROWS; i++) {
            scales[i] = row + i < p.m ? p.token_scale[row + i] : 1.0f;
        }
    }
}

/* A lane's accumulators of TRANSPOSED_COLUMNS rows of C, from `row` on, to outputs. */
static __device__ __forceinline__ void finish_plain_rows(const struct extended_params &p,
                                                         const struct lane_column &at,
                                                         const struct column_outputs &outputs, int32_t row,
                                                         const float (&acc)[TRANSPOSED_COLUMNS]) {
#pragma unroll
    for (int half = 0; half < TRANSPOSED_COLUMNS; half += OUTPUT_ROWS) {
        float values[OUTPUT_ROWS], tokens[OUTPUT_ROWS];
        token_scales(p, row + half, tokens);
#pragma unroll
        for (int i = 0; i < OUTPUT_ROWS; i++) {
            values[i] = scaled(acc[half + i], outputs.scale_gate * tokens[i], outputs.bias.gate);
        }
        activate_plain(p.activation, values);
        store_outputs(p, at, outputs, row + half, values);
    }
}

} // namespace blackwell

#endif
