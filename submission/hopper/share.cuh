/* Expansion of activations inside the GEMM's grid, where all of it runs at once and leaves SMs idle.
 *
 *   every CTA:  A codes, scales --> registers --expand--> its first stages in shared memory
 *   expanders:  A codes, scales --> registers --expand--> shared --TMA--> activations in global memory
 *                                                                  ready[tile][stage] = stamp --> its producer
 *
 * An expander is a CTA without a tile; each of its warpgroups takes a stage of a row of tiles at a time. */
#ifndef HOPPER_SHARE_CUH
#define HOPPER_SHARE_CUH

#include "expand.cuh"
#include "tile.cuh"

/* A stage's part of a row of A: 128 elements of K. */
struct raw_row {
    uint4 codes[4];     /* [lane] as in expand.cuh */
    uint32_t scales[2]; /* [lane / 2]: four scale factors */
};

static __device__ __forceinline__ void read_row(struct raw_row &raw, const struct dual_gemm_params &p, int32_t row,
                                                int32_t k_stage) {
    row = min(row, p.m - 1); /* what nobody stores may be anything */
    const uint8_t *codes = p.a + ((int64_t)row * p.stages_k + k_stage) * STAGE_CODE_BYTES;
    const uint8_t *scales =
        p.sfa + ((int64_t)(row / SCALE_TILE_ROWS) * p.scale_tiles_k + k_stage * 2) * SCALE_TILE_BYTES +
        row % 32 * 16 + row % SCALE_TILE_ROWS / 32 * 4;
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        raw.codes[lane] = ((const uint4 *)codes)[lane];
    }
    raw.scales[0] = *(const uint32_t *)scales;
    raw.scales[1] = *(const uint32_t *)(scales + SCALE_TILE_BYTES);
}

/* To row `row` of a stage's activations, as a copy with 128-byte swizzle would leave them. */
template <class T>
static __device__ __forceinline__ void write_row(const struct raw_row &raw, uint32_t stage, int row) {
    uint32_t scale[4][2]; /* [lane][group] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        expand_scales((uint16_t)(raw.scales[lane / 2] >> lane % 2 * 16), scale[lane]);
    }
#pragma unroll
    for (int word = 0; word < 4; word++) { /* two of each group */
        uint32_t pairs[4][4];              /* [lane][pair] */
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            uint4 codes = raw.codes[lane];
            expand_word(word == 0 ? codes.x : word == 1 ? codes.y : word == 2 ? codes.z : codes.w,
                        scale[lane][word / 2], pairs[lane]);
        }
        uint32_t to = stage + word / 2 * T::box_bytes + row * ACTIVATION_BOX_BYTES;
#pragma unroll
        for (int pair = 0; pair < 4; pair++) {
            uint32_t unit = word % 2 * 4 + pair;
            st_shared_v4(to + (unit ^ row % 8) * 16,
                         make_uint4(pairs[0][pair], pairs[1][pair], pairs[2][pair], pairs[3][pair]));
        }
    }
}

/* All consumers: the activations of the tile's first stages. */
template <class T>
static __device__ __forceinline__ void expand_first_stages(const struct shared_map &shared,
                                                           const struct place &place,
                                                           const struct dual_gemm_params &p) {
    int count = min(T::own_stages, place.stages) * T::tokens;
    for (int i = threadIdx.x - WARPGROUP_THREADS; i < count; i += T::consumers) {
        int stage = i / T::tokens, row = i % T::tokens;
        struct raw_row raw;
        read_row(raw, p, place.token + row, place.first_stage + stage);
        write_row<T>(raw, shared.base + stage * T::stage_size, row);
    }
    fence_proxy_async_shared(); /* the tensor cores read them */
}

/* Whether its activations of stage `stage` are there: a tile has a slot for each of its stages. */
static __device__ __forceinline__ uint64_t *ready_slot(const struct dual_gemm_params &p, int32_t tile,
                                                       int32_t stage) {
    return p.ready + (int64_t)tile * p.stages_k + stage;
}

/* An expander's unit of work: a stage of a row of tiles. */
struct unit {
    int32_t stage, rank, token_tile; /* stage: of the rank's share of K */
    int32_t k_stage;                 /* of K */
};

/* Units are ordered as the tiles will need them: by stage, then row of tiles, then share of K. */
template <class T> static __device__ __forceinline__ struct unit find_unit(const struct dual_gemm_params &p, int32_t i) {
    struct unit unit;
    int32_t rows = p.token_tiles * T::splits;
    unit.stage = T::own_stages + i / rows;
    unit.token_tile = i % rows / T::splits;
    unit.rank = i % T::splits;
    unit.k_stage = min(p.stages_k * unit.rank / T::splits + unit.stage, p.stages_k - 1);
    return unit;
}

template <class T> static __device__ __forceinline__ int32_t count_units(const struct dual_gemm_params &p) {
    return max((p.stages_k + T::splits - 1) / T::splits - T::own_stages, 0) * p.token_tiles * T::splits;
}

/* A worker has stages of its own, used in turn, and each of them a publisher. */
template <class T> struct slots {
    static constexpr int publishers = WARPGROUP_THREADS / WARP_THREADS;
    static constexpr int of_worker = (T::stages < publishers ? T::stages : publishers) / T::warpgroups;
    static constexpr int all = of_worker * T::warpgroups;
    static_assert(of_worker > 0, "a stage and a publisher for each worker");
};

/* An expander's worker, a warpgroup.  Waits for empty[s], writes a unit's activations to stage s, signals full[s].  The
 * codes of its next unit are on their way meanwhile. */
template <class T>
static __device__ __forceinline__ void expand_units(const struct shared_map &shared, const struct dual_gemm_params &p) {
    constexpr int rows = (T::tokens + WARPGROUP_THREADS - 1) / WARPGROUP_THREADS;
    int worker = threadIdx.x / WARPGROUP_THREADS - 1, row = threadIdx.x % WARPGROUP_THREADS;
    int32_t units = count_units<T>(p), step = T::warpgroups * p.expanders;
    struct raw_row raw[2][rows];
    int32_t i = worker * p.expanders + blockIdx.x;
    if (i >= units) {
        return;
    }
    struct unit unit = find_unit<T>(p, i);
#pragma unroll
    for (int j = 0; j < rows; j++) {
        read_row(raw[0][j], p, unit.token_tile * T::tokens + row + j * WARPGROUP_THREADS, unit.k_stage);
    }
    struct ring ring = {0, 1};
#pragma unroll 1
    for (; i < units; i += step) {
        unit = find_unit<T>(p, min(i + step, units - 1));
#pragma unroll
        for (int j = 0; j < rows; j++) {
            read_row(raw[1][j], p, unit.token_tile * T::tokens + row + j * WARPGROUP_THREADS, unit.k_stage);
        }
        int stage = ring.stage * T::warpgroups + worker;
        wait(shared.empty<T>(stage), ring.parity);
#pragma unroll
        for (int j = 0; j < rows; j++) {
            if (T::tokens % WARPGROUP_THREADS == 0 || row + j * WARPGROUP_THREADS < T::tokens) {
                write_row<T>(raw[0][j], shared.base + stage * T::stage_size, row + j * WARPGROUP_THREADS);
            }
            raw[0][j] = raw[1][j];
        }
        fence_proxy_async_shared();
        mbarrier_arrive(shared.full<T>(stage));
        advance<slots<T>::of_worker>(ring);
    }
}

/* An expander's publisher, a warp with a stage of its own.  Waits for full[s], copies stage s to global memory, signals empty[s]; tells all tiles
 * of the row once the copy is complete. */
template <class T>
static __device__ __forceinline__ void publish_units(const struct shared_map &shared, const struct dual_gemm_params &p) {
    int stage = threadIdx.x / WARP_THREADS;
    uint32_t from = shared.base + stage * T::stage_size, parity = 0;
    int32_t units = stage < slots<T>::all ? count_units<T>(p) : 0;
#pragma unroll 1
    for (int32_t i = stage * p.expanders + blockIdx.x; i < units; i += slots<T>::all * p.expanders, parity ^= 1) {
        struct unit unit = find_unit<T>(p, i);
        wait(shared.full<T>(stage), parity);
        if (elect_sync()) {
            cp_async_bulk_store(image<T>(p, unit.token_tile, unit.k_stage), from, T::image_bytes);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group_read<0>();
            mbarrier_arrive(shared.empty<T>(stage));
            cp_async_bulk_wait_group<0>();
        }
        __syncwarp();
        fence_acq_rel_gpu();
        for (int32_t x = threadIdx.x % WARP_THREADS; x < p.tiles_x; x += WARP_THREADS) {
            st_relaxed_gpu(ready_slot(p, (unit.token_tile * p.tiles_x + x) * T::splits + unit.rank, unit.stage),
                           p.stamp);
        }
    }
}

/* Producer warp: how many stages from the first on are ready; waits until that is more than `stage`. */
static __device__ __forceinline__ int32_t wait_until_ready(const struct dual_gemm_params &p, int32_t tile,
                                                           int32_t stage, int32_t stages) {
    int32_t mine = stage + (int32_t)(threadIdx.x % WARP_THREADS);
    uint32_t missing;
    do {
        bool there = mine >= stages || ld_acquire_gpu(ready_slot(p, tile, mine)) == p.stamp;
        missing = ~__ballot_sync(~0u, there);
    } while (missing & 1);
    fence_proxy_async_global();
    return missing == 0 ? stage + WARP_THREADS : stage + __ffs((int)missing) - 1;
}

/* Producer warp, at its end: stamps of a replayed graph are the same. */
static __device__ __forceinline__ void clear_slots(const struct dual_gemm_params &p, int32_t tile, int32_t stages) {
    for (int32_t i = (int32_t)(threadIdx.x % WARP_THREADS); i < stages; i += WARP_THREADS) {
        *ready_slot(p, tile, i) = 0;
    }
}

#endif
