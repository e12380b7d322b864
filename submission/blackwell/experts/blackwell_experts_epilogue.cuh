/* The epilogue of the products of experts: accumulators in TMEM, a lane for each row of B, to rows of C.
 *
 * Read the first comments of blackwell_experts_gemm.cuh and blackwell_experts_tile.cuh before. */
#ifndef BLACKWELL_EXPERTS_EPILOGUE_CUH
#define BLACKWELL_EXPERTS_EPILOGUE_CUH

#include "../extended/blackwell_column_outputs.cuh"
#include "blackwell_experts_tile.cuh"

namespace blackwell {

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

/* A lane's accumulators of gate or of up of TRANSPOSED_COLUMNS rows of C, to outputs: the lane with gate takes
 * the first half of the rows, the lane with up the others.
 */
static __device__ __forceinline__ void finish_gated_rows(const struct extended_params &p,
                                                         const struct lane_column &at,
                                                         const struct column_outputs &outputs, int32_t row,
                                                         const float (&acc)[TRANSPOSED_COLUMNS]) {
    const bool has_up = (threadIdx.x & at.up_bit) != 0;
    float values[OUTPUT_ROWS], tokens[OUTPUT_ROWS];
    row += has_up ? OUTPUT_ROWS : 0;
    token_scales(p, row, tokens);
#pragma unroll
    for (int i = 0; i < OUTPUT_ROWS; i++) {
        const float own = has_up ? acc[OUTPUT_ROWS + i] : acc[i],
                    given = has_up ? acc[i] : acc[OUTPUT_ROWS + i];
        const float other = __uint_as_float(shfl_sync_bfly(__float_as_uint(given), at.up_bit));
        const struct row_factors factors = {outputs.scale_gate * tokens[i], outputs.scale_up * tokens[i]};
        values[i] = finish_gated(p, has_up ? other : own, has_up ? own : other, factors, outputs.bias);
    }
    store_outputs(p, at, outputs, row, values);
}

static __device__ __forceinline__ void finish_rows(const struct extended_params &p,
                                                   const struct lane_column &at,
                                                   const struct column_outputs &outputs, int32_t row,
                                                   const float (&acc)[TRANSPOSED_COLUMNS]) {
    if (p.plain) {
        finish_plain_rows(p, at, outputs, row, acc);
    } else {
        finish_gated_rows(p, at, outputs, row, acc);
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
    const struct warp_place place = find_warp(acc);
    const struct lane_column at = find_lane_column(p, coord);
    const struct column_outputs outputs = {
        number_or_one(e.scale_gate != nullptr ? e.scale_gate + expert : nullptr),
        number_or_one(e.scale_up != nullptr ? e.scale_up + expert : nullptr),
        quantization_scale(number_or_one(e.scale_c != nullptr ? e.scale_c + expert : nullptr)),
        find_bias(e, at.column, expert), coord.rows.row_end};
    int32_t first = place.group * TRANSPOSED_COLUMNS;
    float sums[TRANSPOSED_COLUMNS], next[TRANSPOSED_COLUMNS];
    wait(complete, parity);
    tcgen05_fence_after_thread_sync();
    if (first < coord.columns) {
        load_acc(sums, tmem_column(place.acc, first));
    }
#pragma unroll 1
    for (; first + step < coord.columns; first += step) {
        start_load(next, tmem_column(place.acc, first + step));
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
