/* The products of experts for sm_120a and sm_121a (custom_kernel.h, custom_kernel_experts()): the dual GEMM's
 * tile, or for a plain product the grouped GEMM's, over a list of tiles that each CTA makes from the counts on
 * the device.
 *
 * Read geforce_dual_gemm.cuh and geforce_extended_gemm.cuh first.  An expert's rows of A may start anywhere in
 * a scale tile, so warps copy the word of every row to its place for a tile that starts at row 0; then the
 * layout in memory, by rows or blocked, does not matter either.  They do the same for B, unless its scale
 * factors are blocked and gate and up two tensors: whole scale tiles take fewer copies.
 *
 *   counts --one warp's scan--> table in shared memory: ends of rows, ends of tiles --binary search--> tile
 *
 *   load warp                 three warps                        MMA warps
 *   ---------                 -----------                        ---------
 *   A, B1, B2  --TMA--> +     sfa        --cp.async--> +         full --> main loop of the dual GEMM
 *   sfb1, sfb2 --bulk-> |     or all three             |              --> extended GEMM's epilogue
 *                       '-------------- stage ---------'
 *
 *   barrier    arrivals                              bytes       complete when
 *   full[s]    1 (load warp), one of every thread    a stage's   stage s holds fp4 and scale factors
 *              that copies words
 *   empty[s]   its MMA warps                         0           no warp reads stage s any more
 *
 * A tile copies tile_m rows of A from its first one on, also those of the next expert: they only affect rows of
 * C that are not stored. */
#ifndef GEFORCE_EXPERTS_GEMM_CUH
#define GEFORCE_EXPERTS_GEMM_CUH

#include "../../gpu/experts/gpu_experts.cuh"
#include "../extended/geforce_extended_gemm.cuh"
#include "geforce_experts_kernels.h"

namespace geforce {

/* ---- tiles ---- */

template <bool plain, int tile_m, int stages, int warps_m, int warps_n>
struct experts_tile : std::conditional_t<plain, grouped_tile<tile_m, EXPERTS_TILE_N, stages, warps_m, warps_n>,
                                         tile<tile_m, EXPERTS_TILE_N, stages, warps_m, warps_n>> {
    static constexpr bool moves_registers = warps_m * warps_n == 8; /* fewer warps have enough */
    static constexpr int word_rows = tile_m + 2 * EXPERTS_TILE_N;   /* of A, then of B1 and of B2 */
    static constexpr int word_threads = EXPERTS_SCALE_WARPS * WARP_THREADS,
                         thread_rows = (word_rows + word_threads - 1) / word_threads;
    static_assert(!moves_registers ||
                      WARP_THREADS * (LOAD_WARPS * EXPERTS_LOAD_REGISTERS +
                                      warps_m * warps_n * EXPERTS_MMA_REGISTERS) <=
                          CTA_THREADS(warps_m, warps_n) * LAUNCH_REGISTERS(CTA_THREADS(warps_m, warps_n)),
                  "the launch's registers suffice for what all warpgroups ask for");
};

template <class T> struct experts_storage {
    struct shared_storage<T> ring;
    struct expert_table table;
    static_assert(sizeof(struct shared_storage<T>) + sizeof(struct expert_table) + SWIZZLE_ATOM_BYTES ==
                      EXPERTS_SHARED_BYTES(T::tile_m, T::stages),
                  "shared memory has the bytes that the host asks for");
    static_assert(EXPERTS_SHARED_BYTES(T::tile_m, T::stages) <= MAX_SHARED_BYTES_SM120,
                  "a CTA has at most MAX_SHARED_BYTES of shared memory");
};

/* A tile's rows and the first of its columns of C. */
struct experts_coord {
    struct expert_tile rows;
    int32_t column;
};

template <class T>
static __device__ __forceinline__ struct experts_coord
find_tile_of_experts(const struct geforce_experts_params &p, const struct expert_table *table, int32_t number) {
    return {find_expert_tile(p.tokens, table, number / p.tiles_n), number % p.tiles_n * T::columns};
}

static __device__ __forceinline__ int32_t number_of_tiles(const struct geforce_experts_params &p,
                                                          const struct expert_table *table) {
    return expert_tiles(p.tokens, table) * p.tiles_n;
}

/* ---- load ---- */

/* True if B's scale factors come as whole scale tiles. */
static __device__ __forceinline__ bool copies_tiles(const struct geforce_experts_params &p) {
    return p.sfb1.layout == CUSTOM_KERNEL_SCALES_BLOCKED && p.interleave == 0;
}

/* Load warp, one thread, for one tile after another.  Waits for empty[s]; fills stage s with fp4, zeros out of
 * bounds, and with B's scale tiles of the steps that K has; signals full[s]. */
template <class T>
static __device__ __forceinline__ void load_tiles(shared_t<T> shared, const struct geforce_experts_params &p,
                                                  const struct expert_table *table) {
    constexpr int fp4_bytes = (T::tile_m + 2 * T::tile_n) * STAGE_FP4_BYTES;
    const int32_t tiles = number_of_tiles(p, table);
    const bool interleaved = p.interleave != 0, copies = copies_tiles(p);
    struct ring ring = ring_to_fill();
#pragma unroll 1
    for (int32_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const struct experts_coord coord = find_tile_of_experts<T>(p, table, number);
        const int32_t row = interleaved ? 0 : coord.column,
                      batch = interleaved ? (coord.rows.expert * p.epilogue.n + coord.column) / p.interleave
                                          : coord.rows.expert;
        const int32_t scale_row = coord.column / SCALE_TILE_ROWS * SCALE_TILE_ROWS;
        const uint8_t *sfb1 = first_scale_word(p.sfb1, p.steps_k, coord.rows.expert, scale_row),
                      *sfb2 = first_scale_word(p.sfb2, p.steps_k, coord.rows.expert, scale_row);
#pragma unroll 1
        for (int32_t step = 0; step < p.steps_k; step += STAGE_STEPS) {
            const struct mbarrier full = full_barrier(shared, ring.stage);
            const stage_t<T> to = stage_of(shared, ring.stage);
            const int32_t k = step * (STEP_K / 2);
            const uint32_t scale_bytes = min(STAGE_STEPS, p.steps_k - step) * SCALE_TILE_BYTES;
            wait(empty_barrier(shared, ring.stage), ring.parity);
            mbarrier_arrive_expect_tx(full, fp4_bytes + (copies ? T::products * scale_bytes : 0));
            cp_async_bulk_tensor_3d_cta(SHARED_MEMBER(to, b[0]), &p.b1, k, row, batch, full);
            cp_async_bulk_tensor_3d_cta(SHARED_MEMBER(to, b[1]), &p.b2, k, row + T::second_column, batch, full);
            cp_async_bulk_tensor_3d_cta(SHARED_MEMBER(to, a), &p.a, k, coord.rows.first_row, 0, full);
            if (copies) {
                cp_async_bulk_cta(SHARED_MEMBER(to, sfb[0]), sfb1 + (int64_t)step * SCALE_TILE_BYTES,
                                  scale_bytes, full);
            }
            if (T::products == 2 && copies) {
                cp_async_bulk_cta(SHARED_MEMBER(to, sfb[1]), sfb2 + (int64_t)step * SCALE_TILE_BYTES,
                                  scale_bytes, full);
            }
            advance<T::stages>(ring);
        }
    }
}

/* The first word of row number `row` of those whose scale factors a stage holds; past an end, the last row's,
 * which affects no output. */
template <class T>
static __device__ __forceinline__ const uint8_t *first_word(const struct geforce_experts_params &p,
                                                            const struct experts_coord &coord, int row) {
    if (row < T::tile_m) {
        return first_token_word(p.sfa, p.steps_k, p.tokens, coord.rows, coord.rows.first_row + row);
    }
    const int of_b = row - T::tile_m, second = of_b / T::tile_n, in_half = of_b % T::tile_n;
    const int32_t column = coord.column + in_half, b_row = p.interleave != 0
                                                               ? interleaved_row(p.interleave, column, second)
                                                               : column + second * T::second_column;
    return first_scale_word(second ? p.sfb2 : p.sfb1, p.steps_k, coord.rows.expert, min(b_row, p.b_rows - 1));
}

/* Where it belongs in a stage. */
template <class T> static __device__ __forceinline__ uint32_t word_place(int row) {
    using stage = struct shared_stage<T>;
    if (row < T::tile_m) {
        return scale_word_at((uint32_t)offsetof(stage, sfa), row);
    }
    const int of_b = row - T::tile_m;
    return scale_word_at((uint32_t)offsetof(stage, sfb), of_b % T::tile_n) +
           of_b / T::tile_n * layout_of<T>::second_sfb;
}

/* A warp that copies words, for one tile after another.  Waits for empty[s]; copies its rows' words of the
 * steps that K has to stage s; signals full[s] when they are there. */
template <class T>
static __device__ __forceinline__ void load_words(shared_t<T> shared, const struct geforce_experts_params &p,
                                                  const struct expert_table *table, int thread) {
    const int32_t tiles = number_of_tiles(p, table);
    const int32_t a_step = scale_step_bytes(p.sfa), b_step = scale_step_bytes(p.sfb1);
    const int rows = copies_tiles(p) ? T::tile_m : T::word_rows;
    struct ring ring = ring_to_fill();
#pragma unroll 1
    for (int32_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const struct experts_coord coord = find_tile_of_experts<T>(p, table, number);
        const uint8_t *from[T::thread_rows];
#pragma unroll
        for (int i = 0; i < T::thread_rows; i++) {
            const int row = i * T::word_threads + thread;
            from[i] = row < rows ? first_word<T>(p, coord, row) : nullptr;
        }
#pragma unroll 1
        for (int32_t step = 0; step < p.steps_k; step += STAGE_STEPS) {
            const uint32_t stage = stage_of(shared, ring.stage).value;
            wait(empty_barrier(shared, ring.stage), ring.parity);
#pragma unroll
            for (int i = 0; i < T::thread_rows; i++) {
                const int row = i * T::word_threads + thread;
                const int32_t step_bytes = row < T::tile_m ? a_step : b_step;
                if (row >= rows) {
                    continue;
                }
#pragma unroll
                for (int j = 0; j < STAGE_STEPS; j++) {
                    if (step + j < p.steps_k) {
                        cp_async_ca_4(stage + word_place<T>(row) + j * SCALE_TILE_BYTES,
                                      from[i] + j * step_bytes);
                    }
                }
                from[i] += STAGE_STEPS * step_bytes;
            }
            cp_async_mbarrier_arrive_noinc(full_barrier(shared, ring.stage));
            advance<T::stages>(ring);
        }
    }
}

/* ---- multiply, store ---- */

/* What extended_epilogue reads, for one expert. */
struct expert_epilogue {
    struct extended_params epilogue;
    int32_t interleave;
};

template <class T>
static __device__ __forceinline__ struct expert_epilogue epilogue_of(const struct geforce_experts_params &p,
                                                                     const struct expert_tile &rows) {
    struct expert_epilogue own = {p.epilogue, 0};
    own.epilogue.m = rows.row_end;
    own.epilogue.scale_gate += p.epilogue.scale_gate != nullptr ? rows.expert : 0;
    own.epilogue.scale_up += p.epilogue.scale_up != nullptr ? rows.expert : 0;
    own.epilogue.scale_c += p.epilogue.scale_c != nullptr ? rows.expert : 0;
    own.epilogue.bias_gate += p.epilogue.bias_gate != nullptr ? rows.expert * p.epilogue.n : 0;
    own.epilogue.bias_up += p.epilogue.bias_up != nullptr ? rows.expert * p.epilogue.n : 0;
    return own;
}

/* MMA warp, for one tile after another; otherwise multiply() of geforce_pipeline.cuh. */
template <class T>
static __device__ __forceinline__ void
multiply_experts(shared_t<T> shared, const struct geforce_experts_params &p, const struct expert_table *table) {
    const int32_t tiles = number_of_tiles(p, table);
    struct ring ring = ring_to_use();
#pragma unroll 1
    for (int32_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const struct experts_coord coord = find_tile_of_experts<T>(p, table, number);
        const struct lane_places<T> places = lane_places_of<T>({0, copies_tiles(p) ? coord.column : 0, 0});
        struct accumulators<T> acc = {};
#pragma unroll 1
        for (int32_t step = 0; step < p.steps_k; step += STAGE_STEPS) {
            wait(full_barrier(shared, ring.stage), ring.parity);
            multiply_stage<T>(acc, stage_of(shared, ring.stage).value, places, p.steps_k - step);
            __syncwarp();
            if (threadIdx.x % WARP_THREADS == 0) {
                mbarrier_arrive(empty_barrier(shared, ring.stage));
            }
            advance<T::stages>(ring);
        }
        extended_epilogue::run<T>(acc.gate, acc.up, {coord.rows.first_row, coord.column, 0},
                                  epilogue_of<T>(p, coord.rows));
    }
}

/* ---- kernel ---- */

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    experts_gemm_kernel(const __grid_constant__ geforce_experts_params p) {
    extern __shared__ unsigned char memory[];
    const uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    unsigned char *aligned = memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    struct experts_storage<T> *storage = (struct experts_storage<T> *)aligned;
    const shared_t<T> shared = {cvta_to_shared(aligned)};
    const int warp = __shfl_sync(~0u, threadIdx.x / WARP_THREADS, 0);

    if (warp == T::warps && elect_sync()) {
        prefetch_tensormap(&p.b1);
        prefetch_tensormap(&p.b2);
        prefetch_tensormap(&p.a);
        for (int stage = 0; stage < T::stages; stage++) {
            mbarrier_init(full_barrier(shared, stage), 1 + T::word_threads);
            mbarrier_init(empty_barrier(shared, stage), T::warps);
        }
        fence_mbarrier_init();
    }
    griddepcontrol_wait(); /* the kernel before may make the counts */
    if (warp == T::warps + 1) {
        make_expert_table(p.tokens, &storage->table);
    }
    __syncthreads();
    griddepcontrol_launch_dependents();
    if (warp >= T::warps) {
        if constexpr (T::moves_registers) {
            setmaxnreg_dec<EXPERTS_LOAD_REGISTERS>();
        }
        if (warp > T::warps) {
            load_words<T>(shared, p, &storage->table, threadIdx.x - (T::warps + 1) * WARP_THREADS);
        } else if (elect_sync()) {
            load_tiles<T>(shared, p, &storage->table);
        }
    } else {
        if constexpr (T::moves_registers) {
            setmaxnreg_inc<EXPERTS_MMA_REGISTERS>();
        }
        multiply_experts<T>(shared, p, &storage->table);
    }
}

} // namespace geforce

#endif
