/* The products of experts with many rows each: large tiles (hopper_experts_config.h).
 *
 * A tile multiplies only its own rows of A, rounded up to LARGE_UNIT_ROWS: its main loop is chosen by that
 * number.  Outputs pass through shared memory that belongs to one warpgroup, and only that warpgroup
 * synchronizes for them: one warpgroup multiplies while the other stores. */
#ifndef HOPPER_EXPERTS_LARGE_CUH
#define HOPPER_EXPERTS_LARGE_CUH

#include "hopper_experts_epilogue.cuh"

namespace hopper {

/* The tile's main loop for `rows` rows of A. */
template <class T, int rows> struct large_width : T {
    static constexpr int wgmma_rows = rows;
    /* HW: ptxas serializes wgmma with longer fragments beside more accumulators (C7512). */
    static constexpr int fragment_steps = T::tile_m > 96 ? GROUP_STEPS / 2 : GROUP_STEPS;
    static constexpr bool blocks_in_turn = true; /* registers hold the fp4 of one m block */
};

/* The tile's products: the main loop of as many rows as the tile has. */
template <class T, int rows = T::least_rows>
static __device__ __forceinline__ void multiply_large(float (&acc)[T::m_blocks][T::accs],
                                                      struct consumed &consumed, shared_t<T> shared,
                                                      const struct experts_coord &coord) {
    if (rows < T::tile_m && coord.width > rows) {
        if constexpr (rows < T::tile_m) {
            multiply_large<T, rows + LARGE_UNIT_ROWS>(acc, consumed, shared, coord);
        }
        return;
    }
    using W = large_width<T, rows>;
    multiply_stages<W>(acc, consumed, shared_t<W>{shared.value}, coord, 0, coord.stages);
    wgmma_wait_group<0>();
#pragma unroll
    for (int i = 0; i < T::m_blocks * rows / 2; i++) {
        keep_after_wait(acc[i / (rows / 2)][i % (rows / 2)]);
    }
}

/* ---- epilogue ---- */

/* A warpgroup's accumulators of 32 rows of A from `first` on -> outputs in its shared memory. */
template <class T, bool plain, bool fp32>
static __device__ __forceinline__ void
stage_large_strip(const float (&acc)[T::m_blocks][T::accs], int first, int part, uint32_t output, int barrier,
                  const struct row_factors (&factors)[4][2], int32_t first_column, int32_t expert,
                  const struct extended_params &p, float correction) {
    constexpr int most = T::tile_m / 8;
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    float two[T::m_blocks][8];
#pragma unroll
    for (int block = 0; block < T::m_blocks; block++) {
        const int32_t column = first_column + block * WGMMA_M_BLOCK_B_ROWS + warp * 8 + lane / 4;
        finish_pairs<plain ? PLAIN : GATED, 4>(two[block], &acc[block][first / 8 * 4], part, factors,
                                               find_bias(p, column, expert), p, correction,
                                               min(4, most - first / 8));
    }
    bar_sync(barrier, WARPGROUP_THREADS); /* the rows before have been read */
#pragma unroll
    for (int block = 0; block < T::m_blocks; block++) {
        const int column = block * WGMMA_M_BLOCK_B_ROWS + warp * 8;
        if constexpr (fp32) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                st_shared_f32(output + (i / 2 * 8 + lane % 4 * 2 + i % 2) * LARGE_WIDE_ROW_BYTES +
                                  (column + lane / 4) * (int)sizeof(float),
                              two[block][i]);
            }
        } else {
            uint32_t packed[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                packed[i] = two_halves(p, two[block][2 * i], two[block][2 * i + 1]);
            }
            stmatrix_x4_trans(output + lane * LARGE_SHORT_ROW_BYTES + column * FP16_BYTES, packed);
        }
    }
    bar_sync(barrier, WARPGROUP_THREADS);
}

/* A warpgroup's outputs of a tile, 32 rows of A and 64 columns of C at a time. */
template <class T, bool plain, bool nvfp4>
static __device__ __forceinline__ void
finish_large_tile(const float (&acc)[T::m_blocks][T::accs], unsigned char *output, int warpgroup,
                  const struct experts_coord &coord, const struct extended_params &p, float correction) {
    const struct expert_scalars scalars = scalars_of_expert(p, coord.expert);
#pragma unroll
    for (int first = 0; first < T::tile_m; first += EXPERTS_STRIP_ROWS) {
        const int32_t first_row = coord.m + first, rows = min(EXPERTS_STRIP_ROWS, coord.row_end - first_row);
        if (rows <= 0) {
            break;
        }
        struct row_factors factors[4][2];
        find_lane_factors(factors, p, scalars.gate, scalars.up, first_row);
#pragma unroll
        for (int part = 0; part < (plain ? 2 : 1); part++) {
            const int32_t column = coord.column + part * T::tile_n + warpgroup * LARGE_COLUMNS;
            stage_large_strip<T, plain, nvfp4>(acc, first, part, cvta_to_shared(output),
                                               STORE_BARRIER + warpgroup, factors, column, coord.expert, p,
                                               correction);
            copy_strip<LARGE_COLUMNS, WARPGROUP_THREADS, nvfp4>(
                output, nvfp4 ? LARGE_WIDE_ROW_BYTES : LARGE_SHORT_ROW_BYTES, threadIdx.x % WARPGROUP_THREADS,
                first_row, rows, column, scalars.c, p);
        }
    }
}

} // namespace hopper

#endif
