/* The products of experts for sm_100a and sm_103a (custom_kernel.h, custom_kernel_experts()): the grouped
 * GEMM's transposed tile over a list of tiles that each CTA makes from the counts on the device.
 *
 * Read blackwell_dual_gemm.cuh and blackwell_transposed_gemm.cuh first.
 *
 *   counts --one warp's scan--> table in shared memory: ends of rows, ends of tiles --binary search--> tile
 *
 *   load warp                 four warps                         MMA warp of the pair     eight epilogue warps
 *   ---------                 ----------                         --------------------     --------------------
 *   B, A --TMA--> +           scale factors --cp.async--> +      tcgen05.cp, tcgen05.mma
 *                 '---------------- stage ----------------'  --> c^T = b a^T in TMEM -->  scales, activation, C
 *
 *   barrier           arrivals           complete when
 *   full[s]           1 (load warp)      stage s holds fp4, in both CTAs; it counts bytes too;
 *                     1 a CTA (a warp)   and scale factors, in both CTAs
 *   empty[s]          1 (commit)         no MMA and no copy reads stage s, in both CTAs, any more
 *   complete[i]       1 (commit)         the tile's products are complete; tiles use two in turn
 *   drained[i]        16 (warps)         no warp of the pair reads that tile's accumulators any more
 *
 * A tile's MMA has as many columns as the expert has rows of A, rounded up to granules of 16: those past the
 * last one are rows of the next expert, and only affect rows of C that are not stored. */
#ifndef BLACKWELL_EXPERTS_GEMM_CUH
#define BLACKWELL_EXPERTS_GEMM_CUH

#include "blackwell_experts_epilogue.cuh"
#include "blackwell_experts_scales.cuh"

namespace blackwell {

/* ---- load ---- */

/* A CTA's half of the tile's rows of A, in boxes of eight rows, 16, ... */
template <class T>
static __device__ __forceinline__ void copy_a(stage_t<T> stage, const struct blackwell_experts_params &p,
                                              const struct experts_coord &coord, int32_t k,
                                              struct mbarrier full) {
    const int32_t rows = coord.columns / T::ctas;
    int32_t row = coord.rows.first_row + pair_rank() * rows;
    uint32_t to = SHARED_MEMBER(stage, b);
#pragma unroll
    for (int i = 0; i < EXPERTS_BOXES; i++) {
        const int32_t box_rows = EXPERTS_LEAST_BOX << i;
        if ((rows & box_rows) != 0) {
            copy_box<T>(to, &p.a[i], k, row, 0, full);
            row += box_rows;
            to += box_rows * STAGE_FP4_BYTES;
        }
    }
}

/* The first rows, in an expert's tensor, of a CTA's pieces of gate, in quarters; up's are `up` rows further on.
 * Adjacent rows are one piece. */
struct pieces {
    bool adjacent;
    int32_t gate[TMEM_QUARTERS], up;
};

static __device__ __forceinline__ struct pieces find_pieces(const struct blackwell_experts_params &p,
                                                            const struct experts_coord &coord) {
    struct pieces pieces;
    pieces.adjacent = has_adjacent_rows(p);
    pieces.up = p.interleave;
#pragma unroll
    for (int quarter = 0; quarter < TMEM_QUARTERS; quarter++) {
        pieces.gate[quarter] = pieces.adjacent ? first_adjacent_row(p, coord)
                                               : row_of_column(p, quarter_column(p, coord, quarter), 0);
    }
    return pieces;
}

/* A CTA's rows of B, in the order that blackwell_experts_tile.cuh explains. */
template <class T>
static __device__ __forceinline__ void copy_weights(stage_t<T> stage, const struct blackwell_experts_params &p,
                                                    const struct pieces &pieces, int32_t expert, int32_t k,
                                                    struct mbarrier full) {
    const uint32_t to = SHARED_MEMBER(stage, a);
    if (pieces.adjacent) {
        copy_box<T>(to, &p.b1, k, pieces.gate[0], expert, full);
        return;
    }
#pragma unroll
    for (int quarter = 0; quarter < TMEM_QUARTERS; quarter++) {
        const uint32_t gate = to + quarter * EXPERTS_QUARTER * STAGE_FP4_BYTES;
        copy_box<T>(gate, &p.b1, k, pieces.gate[quarter], expert, full);
        copy_box<T>(gate + EXPERTS_PIECE * STAGE_FP4_BYTES, &p.b2, k, pieces.gate[quarter] + pieces.up, expert,
                    full);
    }
}

/* Load warp, one thread, for one tile after another.  Waits for empty[s]; fills stage s with fp4, zeros out of
 * bounds; signals full[s] of the pair's first CTA. */
template <class T>
static __device__ __forceinline__ void load_codes(shared_t<T> shared, const struct blackwell_experts_params &p,
                                                  const struct expert_table *table) {
    struct ring ring = ring_to_fill();
    for_each_tile<T>(p, table, [&](const struct experts_coord &coord, int32_t, bool) {
        const uint32_t bytes = (T::ctas * TILE_M + coord.columns) * STAGE_FP4_BYTES;
        const struct pieces pieces = find_pieces(p, coord);
#pragma unroll 1
        for (int32_t step = 0; step < p.steps_k; step += STAGE_STEPS) {
            struct mbarrier full = full_barrier(shared, ring.stage);
            const stage_t<T> stage = stage_of(shared, ring.stage);
            wait(empty_barrier(shared, ring.stage), ring.parity);
            if (pair_rank() == 0) {
                mbarrier_arrive_expect_tx(full, bytes);
            }
            full.address = mapa_shared_cluster(full.address, 0);
            copy_weights<T>(stage, p, pieces, coord.rows.expert, step * STEP_FP4_BYTES, full);
            copy_a<T>(stage, p, coord, step * STEP_FP4_BYTES, full);
            advance<T::stages>(ring);
        }
    });
}

/* ---- multiply ---- */

/* One tile; otherwise multiply() of blackwell_pipeline.cuh. */
template <class T>
static __device__ __forceinline__ void multiply_tile(shared_t<T> shared, const struct products &products,
                                                     int32_t steps, struct ring &ring, bool more,
                                                     struct mbarrier complete) {
    const int32_t stages = (steps + STAGE_STEPS - 1) / STAGE_STEPS;
    const struct operands first = find_operands<T>(shared, products.tmem);
#pragma unroll 1
    for (int32_t i = 0; i < stages; i++) {
        wait_for_stage<true>(shared, ring);
        multiply_stage<T, BOTH_PRODUCTS>(products, shared, operands_of<T>(first, ring.stage), i, steps);
        if (more || i + T::stages < stages) {
            tcgen05_commit<T::ctas>(empty_barrier(shared, ring.stage), products.ctas);
        }
        advance<T::stages>(ring);
    }
    tcgen05_commit<T::ctas>(complete, products.ctas);
}

/* MMA warp, one thread of the first CTA, for one tile after another.  Waits until the accumulators' columns are
 * free; both CTAs' epilogue warps read them. */
template <class T>
static __device__ __forceinline__ void multiply_experts(shared_t<T> shared, struct tmem_addr tmem,
                                                        const struct blackwell_experts_params &p,
                                                        const struct expert_table *table) {
    using tiles = transposed_tiles<T, struct blackwell_few_groups>;
    struct ring ring = ring_to_use();
    struct acc_columns before = {0, 0};
    for_each_tile<T>(p, table, [&](const struct experts_coord &coord, int32_t pass, bool more) {
        const struct acc_columns columns = next_columns<T>(before, coord.columns);
        const struct tmem_addr acc = tmem_column(tmem, columns.first);
        const struct products products = {
            tmem, acc, acc, nvfp4_instruction_descriptor(TILE_M * T::ctas, coord.columns), 0, 3, 1};
        if (pass >= 2) {
            tiles::await_drained(shared, pass - 2);
        }
        if (pass >= 1 && columns.first < before.end && before.first < columns.end) {
            tiles::await_drained(shared, pass - 1);
        }
        multiply_tile<T>(shared, products, p.steps_k, ring, more, complete_barrier<T>(shared, pass));
        before = columns;
    });
}

/* ---- store ---- */

/* Epilogue warp, for one tile after another. */
template <class T>
static __device__ __forceinline__ void store_tiles(shared_t<T> shared, struct tmem_addr tmem,
                                                   const struct blackwell_experts_params &p,
                                                   const struct expert_table *table) {
    struct acc_columns before = {0, 0};
    for_each_tile<T>(p, table, [&](const struct experts_coord &coord, int32_t pass, bool more) {
        const struct acc_columns columns = next_columns<T>(before, coord.columns);
        store_experts(
            tmem_column(tmem, columns.first), coord, p, complete_barrier<T>(shared, pass), phase_of(pass), [&] {
                tcgen05_fence_before_thread_sync();
                __syncwarp();
                if (more && threadIdx.x % WARP_THREADS == 0) {
                    mbarrier_arrive_cluster(mapa_shared_cluster(drained_barrier<T>(shared, pass).address, 0));
                }
            });
        before = columns;
    });
    leave_tmem();
}

/* ---- kernel ---- */

template <class T> static __device__ __forceinline__ void init_experts_barriers(shared_t<T> shared) {
    for (int stage = 0; stage < T::stages; stage++) {
        mbarrier_init(full_barrier(shared, stage), 1 + T::ctas);
        mbarrier_init(empty_barrier(shared, stage), 1);
    }
    for (int i = 0; i < 2; i++) {
        mbarrier_init(complete_barrier<T>(shared, i), 1);
        mbarrier_init(drained_barrier<T>(shared, i), T::ctas * EPILOGUE_WARPS);
    }
    fence_mbarrier_init();
}

/* A warp without a part in TMEM: does its work between the pair's meetings. */
template <class Work> static __device__ __forceinline__ void work_beside_tmem(Work work) {
    barrier_cluster_arrive_relaxed();
    work();
    __syncwarp();
    barrier_cluster_wait_acquire();
    meet_ctas();
}

/* Meetings as in run_tiles() of blackwell_dual_gemm.cuh. */
template <class T>
static __global__ void __launch_bounds__(EXPERTS_THREADS, 1)
    experts_gemm_kernel(const __grid_constant__ blackwell_experts_params p) {
    extern __shared__ unsigned char memory[];
    const uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    unsigned char *aligned = memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    struct experts_storage<T> *storage = (struct experts_storage<T> *)aligned;
    const struct shared_address<typename layout_of<T>::storage> shared = {
        cvta_to_shared(aligned)
    };
    const int warp = __shfl_sync(~0u, threadIdx.x / WARP_THREADS, 0);

    if (warp == LOAD_WARP && elect_sync()) {
        prefetch_tensormap(&p.b1);
        prefetch_tensormap(&p.b2);
        prefetch_tensormap(&p.a[0]);
        init_experts_barriers<T>(shared);
    }
    griddepcontrol_wait(); /* the kernel before may make the counts */
    if (warp == OTHER_WARPS + EPILOGUE_WARPS) {
        make_expert_table(p.tokens, &storage->table);
    }
    __syncthreads();
    meet_ctas();
    if (warp == LOAD_WARP) {
        work_beside_tmem([&] {
            if (elect_sync()) {
                load_codes<T>(shared, p, &storage->table);
            }
        });
        return;
    }
    if (warp >= OTHER_WARPS + EPILOGUE_WARPS) {
        work_beside_tmem(
            [&] { load_scales<T>(shared, p, &storage->table, warp - OTHER_WARPS - EPILOGUE_WARPS); });
        return;
    }
    if (warp == MMA_WARP) {
        tcgen05_alloc<T::ctas>(SHARED_MEMBER(shared, tmem_slot), TMEM_COLUMNS);
        tcgen05_relinquish_alloc_permit<T::ctas>();
    }
    tcgen05_fence_before_thread_sync();
    bar_sync(TMEM_BARRIER, CTA_THREADS - WARP_THREADS); /* publishes TMEM's address in the CTA */
    meet_ctas();                                        /* the pair's other CTA has allocated too */
    tcgen05_fence_after_thread_sync();
    griddepcontrol_launch_dependents();
    const struct tmem_addr tmem = {ld_shared_u32(SHARED_MEMBER(shared, tmem_slot))};

    if (warp == MMA_WARP) {
        if (pair_rank() == 0 && elect_sync()) {
            multiply_experts<T>(shared, tmem, p, &storage->table);
        }
        __syncwarp();
        meet_ctas();
        tcgen05_fence_after_thread_sync();
        tcgen05_dealloc<T::ctas>(tmem, TMEM_COLUMNS);
        return;
    }
    store_tiles<T>(shared, tmem, p, &storage->table);
    barrier_cluster_wait_acquire();
}

} // namespace blackwell

#endif
