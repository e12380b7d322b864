/* The epilogue of the products of experts: accumulators in TMEM, a lane for each row of B, to rows of C.
 *
 * Read the first comments of blackwell_experts_gemm.cuh and blackwell_experts_tile.cuh before. */
#ifndef BLACKWELL_EXPERTS_EPILOGUE_CUH
#define BLACKWELL_EXPERTS_EPILOGUE_CUH

#include "../../gpu/gpu_extended.cuh"
#include "../grouped/blackwell_transposed_gemm.cuh"
#include "blackwell_experts_tile.cuh"

namespace blackwell {

#define OUTPUT_ROWS (TRANSPOSED_COLUMNS / 2) /* rows of C that a lane has at a time, all of one column */

/* A lane's column of C, and the lanes that are far from it by gate and up, and by half a group of columns. */
struct lane_column {
    int32_t column;
    int up_bit, half_bit;
};

static __device__ __forceinline__ struct lane_column find_lane_column(const struct blackwell_experts_params &p,
                                                                      const struct experts_coord &coord) {
    const int lane = threadIdx.x % WARP_THREADS, half = EXPERTS_PIECE / 2;
    const int32_t first = quarter_column(p, coord, threadIdx.x / WARP_THREADS % TMEM_QUARTERS);
    if (p.epilogue.plain) {
        return {first + lane, 0, half};
    }
    return has_adjacent_rows(p)
               ? lane_column{first + lane / EXPERTS_PIECE * half + lane % half, half, EXPERTS_PIECE}
               : lane_column{first + lane % EXPERTS_PIECE, EXPERTS_PIECE, half};
}

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
    row += even ? threadIdx.x % 2 : 0;
    uint16_t *to = (uint16_t *)p.c + (int64_t)row * p.n + column;
#pragma unroll
    for (int i = 0; i < OUTPUT_ROWS; i += 2, to += 2 * (int64_t)p.n) {
        const uint32_t both = two_halves(p, values[i], values[i + 1]);
        if (even) {
            store_two_rows(to, both, row + i < row_end && column < p.n);
            continue;
        }
        if (row + i < row_end && column < p.n) {
            to[0] = (uint16_t)both;
        }
        if (row + i + 1 < row_end && column < p.n) {
            to[p.n] = (uint16_t)(both >> 16);
        }
    }
}

/* An expert's numbers, its biases of a lane's column, and the rows of C that its tile stores. */
struct expert_outputs {
    float scale_gate, scale_up, scale_c;
    struct column_bias bias;
    int32_t row_end;
};

static __device__ __forceinline__ void store_outputs(const struct extended_params &p,
                                                     const struct lane_column &at,
                                                     const struct expert_outputs &expert, int32_t row,
                                                     const float (&values)[OUTPUT_ROWS]) {
    if (p.output == CUSTOM_KERNEL_NVFP4) {
        store_codes(p, at, row, expert.row_end, expert.scale_c, values);
    } else {
        store_halves(p, at.column, row, expert.row_end, values);
    }
}

/* A lane's accumulators of TRANSPOSED_COLUMNS rows of C, from `row` on, to outputs. */
static __device__ __forceinline__ void finish_plain(const struct extended_params &p,
                                                    const struct lane_column &at,
                                                    const struct expert_outputs &expert, int32_t row,
                                                    const float (&acc)[TRANSPOSED_COLUMNS]) {
#pragma unroll
    for (int half = 0; half < TRANSPOSED_COLUMNS; half += OUTPUT_ROWS) {
        float values[OUTPUT_ROWS];
#pragma unroll
        for (int i = 0; i < OUTPUT_ROWS; i++) {
            values[i] = scaled(acc[half + i], find_factors(p, expert.scale_gate, 1.0f, row + half + i).gate,
                               expert.bias.gate);
        }
        activate_plain(p.activation, values);
        store_outputs(p, at, expert, row + half, values);
    }
}

/* The same of gate or of up: the lane with gate takes the first half of the rows, the lane with up the others.
 */
static __device__ __forceinline__ void finish_gated(const struct extended_params &p,
                                                    const struct lane_column &at,
                                                    const struct expert_outputs &expert, int32_t row,
                                                    const float (&acc)[TRANSPOSED_COLUMNS]) {
    const bool has_up = (threadIdx.x & at.up_bit) != 0;
    float values[OUTPUT_ROWS];
    row += has_up ? OUTPUT_ROWS : 0;
#pragma unroll
    for (int i = 0; i < OUTPUT_ROWS; i++) {
        const float own = has_up ? acc[OUTPUT_ROWS + i] : acc[i],
                    given = has_up ? acc[i] : acc[OUTPUT_ROWS + i];
        const float other = __uint_as_float(shfl_sync_bfly(__float_as_uint(given), at.up_bit));
        const struct row_factors factors = find_factors(p, expert.scale_gate, expert.scale_up, row + i);
        values[i] = finish_gated(p, has_up ? other : own, has_up ? own : other, factors, expert.bias);
    }
    store_outputs(p, at, expert, row, values);
}

static __device__ __forceinline__ void finish_rows(const struct extended_params &p,
                                                   const struct lane_column &at,
                                                   const struct expert_outputs &expert, int32_t row,
                                                   const float (&acc)[TRANSPOSED_COLUMNS]) {
    if (p.plain) {
        finish_plain(p, at, expert, row, acc);
    } else {
        finish_gated(p, at, expert, row, acc);
    }
}

/* Epilogue warp, one tile.  Waits for `complete`; loads the next accumulators while it makes outputs of the
 * ones before; calls drained() after the last load. */
template <class Drained>
static __device__ __forceinline__ void
store_experts(struct tmem_addr acc, const struct experts_coord &coord, const struct blackwell_experts_params &p,
              struct mbarrier complete, uint32_t parity, Drained drained) {
    constexpr int32_t step = COLUMN_GROUPS * TRANSPOSED_COLUMNS;
    const struct extended_params &e = p.epilogue;
    const int32_t expert = coord.rows.expert;
    const uint32_t quarter = threadIdx.x / WARP_THREADS % TMEM_QUARTERS;
    const int group = (threadIdx.x / WARP_THREADS - OTHER_WARPS) / TMEM_QUARTERS;
    const struct tmem_addr own = {acc.value + (quarter * WARP_THREADS << 16)};
    const struct lane_column at = find_lane_column(p, coord);
    const struct expert_outputs outputs = {
        number_or_one(e.scale_gate != nullptr ? e.scale_gate + expert : nullptr),
        number_or_one(e.scale_up != nullptr ? e.scale_up + expert : nullptr),
        quantization_scale(number_or_one(e.scale_c != nullptr ? e.scale_c + expert : nullptr)),
        find_bias(e, at.column, expert), coord.rows.row_end};
    int32_t first = group * TRANSPOSED_COLUMNS;
    float sums[TRANSPOSED_COLUMNS], next[TRANSPOSED_COLUMNS];
    wait(complete, parity);
    tcgen05_fence_after_thread_sync();
    if (first < coord.columns) {
        load_acc(sums, tmem_column(own, first));
    }
#pragma unroll 1
    for (; first + step < coord.columns; first += step) {
        start_load(next, tmem_column(own, first + step));
        finish_rows(e, at, outputs, coord.rows.first_row + first, sums);
        await_loads(next);
#pragma unroll
        for (int i = 0; i < TRANSPOSED_COLUMNS; i++) {
            sums[i] = next[i];
        }
    }
    drained();
    if (first < coord.columns) {
        finish_rows(e, at, outputs, coord.rows.first_row + first, sums);
    }
}

} // namespace blackwell

#endif
