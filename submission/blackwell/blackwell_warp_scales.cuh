/* The warps of the epilogue before it: they gather the scale factors of joint rows in shared memory, or store
 * all scale factors to TMEM.
 *
 * Read the first comment of blackwell_dual_gemm.cuh before. */
#ifndef BLACKWELL_WARP_SCALES_CUH
#define BLACKWELL_WARP_SCALES_CUH

#include "blackwell_tile.cuh"

namespace blackwell {

/* ---- gathered in shared memory ---- */

/* A stage's scale factors are gathered by T::gather_warps warps; groups of so many take stages in turn. */
template <class T> struct gathering {
    static constexpr int steps = STAGE_STEPS / T::gather_warps; /* of a warp */
    static constexpr int groups = EPILOGUE_WARPS / T::gather_warps;
};

/* Epilogue warp of each CTA, until the main loop ends: handles its steps of its group's stages of the ring,
 * always the same stages, so that it sees each phase of their barriers.  Waits for scales_full[s]; moves the
 * words of the joint rows, B1's and then B2's, to the places of consecutive rows of a scale tile, over the
 * copied data; signals full[s] of the CTA that issues the MMAs.  Rows past the last one may hold
 * anything. */
template <class T>
static __device__ __forceinline__ void rearrange_scales(shared_t<T> shared, const struct tile_coord &coord) {
    constexpr int words = T::joint_scale_tiles * SCALE_ENTRY_WORDS; /* words that a lane moves */
    const int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS - OTHER_WARPS;
    constexpr int steps = gathering<T>::steps;
    const int first_step = warp % T::gather_warps * steps, group = warp / T::gather_warps;
    const int stages = (coord.steps + STAGE_STEPS - 1) / STAGE_STEPS;
    uint32_t from[words];
#pragma unroll
    for (int i = 0; i < words; i++) {
        const int joint_row = i * SCALE_ENTRIES + lane, product = joint_row / T::tile_n;
        const int row = product < 2 ? coord.n % SCALE_TILE_ROWS + joint_row - product * T::tile_n : 0;
        from[i] =
            scale_word_at((product % 2 * T::b_scale_tiles + row / SCALE_TILE_ROWS) * STAGE_SCALE_BYTES, row);
    }
    struct ring ring = ring_to_use();
#pragma unroll 1
    for (int i = 0; i < stages; i++, advance<T::stages>(ring)) {
        if (ring.stage % gathering<T>::groups != group) {
            continue;
        }
        const uint32_t sfb = SHARED_MEMBER(stage_of(shared, ring.stage), sfb) + first_step * SCALE_TILE_BYTES;
        uint32_t word[steps][T::joint_scale_tiles][SCALE_ENTRY_WORDS];
        wait(scales_full_barrier<T>(shared, ring.stage), ring.parity);
#pragma unroll
        for (int step = 0; step < steps; step++) {
#pragma unroll
            for (int j = 0; j < words; j++) {
                word[step][j / SCALE_ENTRY_WORDS][j % SCALE_ENTRY_WORDS] =
                    ld_shared_u32(sfb + step * SCALE_TILE_BYTES + from[j]);
            }
        }
        __syncwarp();
#pragma unroll
        for (int step = 0; step < steps; step++) {
#pragma unroll
            for (int tile = 0; tile < T::joint_scale_tiles; tile++) {
                st_shared_v4(sfb + step * SCALE_TILE_BYTES + tile * STAGE_SCALE_BYTES +
                                 lane * SCALE_ENTRY_BYTES,
                             word[step][tile]);
            }
        }
        fence_proxy_async_shared();
        __syncwarp();
        if (lane == 0) {
            mbarrier_arrive_cluster(
                mapa_shared_cluster(full_barrier(shared, ring.stage).address, leader_rank<T>(coord)));
        }
    }
}

/* ---- stored to TMEM ---- */

/* Reads a step's scale factors of B in the order of the MMAs' rows, a word for 32 rows of each product in turn:
 * for the first MMA those of each CTA's first 32, then for the second one.  `entry` is the lane's of B1's scale
 * tile. */
template <class T> static __device__ __forceinline__ void read_b_scales(uint32_t *word, uint32_t entry) {
#pragma unroll
    for (int product = 0; product < 2; product++) {
        const uint4 found = ld_shared_v4(entry + product * STAGE_SCALE_BYTES);
        word[product] = found.x;
        word[SCALE_ENTRY_WORDS + product] = found.y;
        word[2 + product] = found.z;
        word[SCALE_ENTRY_WORDS + 2 + product] = found.w;
    }
}

/* Epilogue warp of each CTA, until the main loop ends.  Waits for scales_full[s]; stores the scale factors of
 * its half of the stage's steps to its quarter of TMEM, as tcgen05.cp would; signals full[s] of the first CTA,
 * which issues the MMAs, and in the second CTA scales_empty[s].  Across CTAs full's arrival is relaxed, since
 * fences order TMEM and a release would wait for the chip's memory: scales_empty orders the reads of the stage.
 */
template <class T>
static __device__ __forceinline__ void store_scales(shared_t<T> shared, struct tmem_addr tmem,
                                                    const struct tile_coord &coord) {
    constexpr int steps = STAGE_STEPS / (EPILOGUE_WARPS / TMEM_QUARTERS), columns = steps * T::step_columns;
    static_assert(columns % STORE_COLUMNS == 0, "whole stores");
    const uint32_t lane = threadIdx.x % WARP_THREADS, quarter = threadIdx.x / WARP_THREADS % TMEM_QUARTERS;
    const uint32_t first_step = (threadIdx.x / WARP_THREADS - OTHER_WARPS) / TMEM_QUARTERS * steps;
    const int stages = (coord.steps + STAGE_STEPS - 1) / STAGE_STEPS;
    const struct tmem_addr own = {tmem.value + (quarter * WARP_THREADS << 16) + T::scales_column +
                                  first_step * T::step_columns};
    struct ring ring = ring_to_use();
#pragma unroll 1
    for (int i = 0; i < stages; i++, advance<T::stages>(ring)) {
        const stage_t<T> stage = stage_of(shared, ring.stage);
        const uint32_t entry = first_step * SCALE_TILE_BYTES + lane * SCALE_ENTRY_BYTES;
        uint32_t word[columns];
        wait(scales_full_barrier<T>(shared, ring.stage), ring.parity);
        tcgen05_fence_after_thread_sync();
#pragma unroll
        for (int step = 0; step < steps; step++) {
            uint32_t *to = &word[step * T::step_columns];
            const uint4 a = ld_shared_v4(SHARED_MEMBER(stage, sfa) + entry + step * SCALE_TILE_BYTES);
            to[0] = a.x;
            to[1] = a.y;
            to[2] = a.z;
            to[3] = a.w;
            read_b_scales<T>(to + SCALE_TILE_COLUMNS,
                             SHARED_MEMBER(stage, sfb) + entry + step * SCALE_TILE_BYTES);
        }
#pragma unroll
        for (int column = 0; column < columns; column += STORE_COLUMNS) {
            tcgen05_st_32x32b_x8(tmem_column(own, ring.stage * T::stage_columns + column), &word[column]);
        }
        tcgen05_wait_st();
        tcgen05_fence_before_thread_sync();
        __syncwarp();
        if (lane == 0 && coord.rank == 0) {
            mbarrier_arrive(full_barrier(shared, ring.stage));
        } else if (lane == 0) {
            mbarrier_arrive(scales_empty_barrier<T>(shared, ring.stage));
            mbarrier_arrive_cluster_relaxed(
                mapa_shared_cluster(full_barrier(shared, ring.stage).address, leader_rank<T>(coord)));
        }
    }
}

/* MMA warp of a pair's second CTA, one thread.  Waits for scales_empty[s]; signals that of the first CTA, which
 * may then copy to the stage in both. */
template <class T>
static __device__ __forceinline__ void forward_empty_scales(shared_t<T> shared,
                                                            const struct tile_coord &coord) {
    const int stages = (coord.steps + STAGE_STEPS - 1) / STAGE_STEPS;
    struct ring ring = ring_to_use();
#pragma unroll 1
    for (int i = 0; i + T::stages < stages; i++, advance<T::stages>(ring)) {
        const struct mbarrier empty = scales_empty_barrier<T>(shared, ring.stage);
        wait(empty, ring.parity);
        mbarrier_arrive_cluster(mapa_shared_cluster(empty.address, leader_rank<T>(coord)));
    }
}

} // namespace blackwell

#endif
