/* The grouped GEMM for sm_90a, c_i = a_i b_i^T: the dual GEMM's main loop with another list of tiles, other
 * copies and another epilogue.
 *
 * Read hopper_dual_gemm.cuh first.  The first and the second half of a tile's rows of the group's only B take
 * the places of B1 and B2, so that dequantization and products are the same code, and a tile has twice as many
 * columns.
 *
 *   copying warps                      consumer warpgroups (2)
 *   -------------                      -----------------------
 *   B fp4    --TMA--> +
 *   sfb      --bulk-> | stage --> main loop of the dual GEMM --> acc (two halves of columns)
 *   A fp16   --bulk-> +                                            |
 *   the other CTA's acc of a shared K, through memory -----------> + --fp16--> shared --16-byte stores--> C
 *
 *   barrier   arrivals                    bytes       complete when
 *   full[s]   1 (the warp that copies B)  a stage's   stage s holds its B, scale factors and A
 *   empty[s]  the consumers' threads      0           nothing reads stage s any more
 *
 * A CTA computes one tile, or half of its K.  The host sorts the tiles of all groups into one list, the longest
 * first, and the chip deals them out.  A group's number of rows selects its tile's height, so that few rows of
 * A are computed in vain, and a CTA runs the code for that height only.  Everything about a group is in the
 * kernel's parameters. */
#ifndef HOPPER_GROUPED_GEMM_CUH
#define HOPPER_GROUPED_GEMM_CUH

#include "../hopper_outputs.cuh"
#include "../hopper_run_tiles.cuh"
#include "hopper_grouped_config.h"

namespace hopper {

/* Registers a thread.  HW: with the dual GEMM's 24 and 240 ptxas spills in the kernels for shared K, because
 * one code copies for all tiles. */
#define COPYING_REGISTERS     40
#define MULTIPLYING_REGISTERS 232

/* ---- tiles ---- */

/* B1 and B2 are the halves of the tile's rows of the only B, and their scale factors fill one scale tile.
 *
 * One chain of accumulators: a second one would be a second main loop, which each CTA would have to fetch
 * (round 126). */
template <int tile_m, int stages> struct grouped_tile : tile<GROUPED_WARPGROUPS, 1, tile_m, stages, 1, 1> {
    using base = tile<GROUPED_WARPGROUPS, 1, tile_m, stages, 1, 1>;
    using coord = struct tile_coord;
    static constexpr int second_scales = base::tile_n / SCALE_ENTRIES * SCALE_WORD_BYTES;
    static constexpr int chains = 1;
    static constexpr int a_atom_step = A_BOXES * SWIZZLE_ATOM_BYTES, a_box_step = SWIZZLE_ATOM_BYTES;
    static constexpr int columns = GROUPED_COLUMNS;
    static constexpr int output_row_bytes = columns * FP16_BYTES + OUTPUT_PAD_BYTES;

    static_assert(columns == SCALE_TILE_ROWS && columns == 2 * base::tile_n,
                  "both halves of a tile's rows of B have their scale factors in the one scale tile");
    static_assert(WARPGROUP_THREADS * (COPYING_REGISTERS + GROUPED_WARPGROUPS * MULTIPLYING_REGISTERS) <=
                      CTA_THREADS(GROUPED_WARPGROUPS) * LAUNCH_REGISTERS(CTA_THREADS(GROUPED_WARPGROUPS)),
                  "the launch's registers suffice for what all warpgroups ask for");
    static_assert(base::tile_n % SCALE_ENTRIES == 0,
                  "the words of a row and of its counterpart lie equally far apart");
};

/* Each tile's number in the list, by its name. */
struct tile_number {
#define TILE_NUMBER(name, ...) name,
    enum { HOPPER_GROUPED_TILES(TILE_NUMBER) };
#undef TILE_NUMBER
};

/* Calls `function` with a value of the type of tile number `number`.  A switch compiles to one jump; a chain of
 * comparisons would fetch code between all tiles' code, which is larger than an SM's instruction cache. */
template <class F> static __device__ __forceinline__ void with_tile(int32_t number, F function) {
    switch (number) {
#define CALL_IF(name, tile_m, stages)                                                                          \
    case tile_number::name:                                                                                    \
        function(grouped_tile<tile_m, stages>());                                                              \
        break;
        HOPPER_GROUPED_TILES(CALL_IF)
#undef CALL_IF
    default:
        break;
    }
}

/* The group of this CTA's tile. */
template <class P> static __device__ __forceinline__ const struct hopper_group &find_group(const P &p) {
    int32_t index = 0;
    while (index + 1 < p.groups && (int32_t)blockIdx.x >= p.group[index + 1].first_tile) {
        index++;
    }
    return p.group[index];
}

/* `shares`: some group's tiles share K; launches without such a group run a kernel without this code. */
template <bool shares>
static __device__ __forceinline__ struct tile_coord find_grouped_tile(const struct hopper_group &group) {
    const int32_t cta = (int32_t)blockIdx.x - group.first_tile, number = shares ? cta / group.parts : cta,
                  stages_k = group.gemm.stages_k;
    struct tile_coord coord;
    coord.n = number / group.tiles_m * GROUPED_COLUMNS;
    coord.m = coord.first_row = number % group.tiles_m * group.tile_m;
    coord.batch = 0;
    coord.scale_tile = coord.n / SCALE_TILE_ROWS;
    coord.rank = 0;
    coord.first_stage = 0;
    coord.stages = stages_k;
    if constexpr (shares) {
        const int32_t part = cta % group.parts;
        coord.first_stage = stages_k * part / group.parts;
        coord.stages = stages_k * (part + 1) / group.parts - coord.first_stage;
    }
    return coord;
}

/* ---- load ---- */

/* The place of a tile's stages, by numbers in the group's parameters instead of the tile's type: one code
 * copies for all tiles, so an SM that runs several tiles fetches it once. */
struct stages_of_group {
    uint32_t address, stage_bytes;
    int stages;
};

static __device__ __forceinline__ struct stages_of_group stages_of(const struct hopper_group &group,
                                                                   uint32_t address) {
    return {address, (uint32_t)STAGE_BYTES(GROUPED_COLUMNS / 2, group.tile_m), group.stages};
}

template <class T> struct checked_stages {
    using stage = struct shared_stage<T>;
    using storage = struct shared_storage<T>;
    static_assert(offsetof(stage, fp4) == T::tile_m * GROUPED_A_ROW_BYTES &&
                      offsetof(stage, scales) == offsetof(stage, fp4) + GROUPED_COLUMNS * STAGE_FP4_BYTES &&
                      offsetof(storage, full) == T::stages * sizeof(stage) &&
                      offsetof(storage, empty) == offsetof(storage, full) + T::stages * MBARRIER_BYTES,
                  "the host's sizes are those of the type");
};

static __device__ __forceinline__ struct mbarrier full_of(const struct stages_of_group &stages, int stage) {
    return mbarrier_element(stages.address + stages.stages * stages.stage_bytes, stage);
}

static __device__ __forceinline__ struct mbarrier empty_of(const struct stages_of_group &stages, int stage) {
    return full_of(stages, stages.stages + stage);
}

/* A copying warp.  Waits for empty[s]; fills its part of stage s; signals full[s] with the part's bytes, and
 * the warp that copies B also arrives.  Rows of A past the group's last one keep old bytes: they only affect
 * rows of C that are not stored.  elect.sync picks the lane, because ptxas puts a loop around a copy by thread
 * 0. */
static __device__ __forceinline__ void load_operand(const struct stages_of_group &stages,
                                                    const struct tile_coord &coord,
                                                    const struct hopper_group &group, int warp) {
    const struct hopper_dual_gemm_params &p = group.gemm;
    const int64_t a_stage_bytes = (int64_t)group.a_rows * GROUPED_A_ROW_BYTES;
    const int32_t a_bytes = min(group.tile_m, group.a_rows - coord.m) * GROUPED_A_ROW_BYTES;
    const uint8_t *a = group.a + (int64_t)coord.m * GROUPED_A_ROW_BYTES + coord.first_stage * a_stage_bytes;
    const uint8_t *scales = p.sfb1 + (int64_t)coord.scale_tile * p.scale_tiles_k * SCALE_TILE_BYTES +
                            (int64_t)coord.first_stage * STAGE_SCALE_BYTES;
    const int32_t fp4_offset = group.tile_m * GROUPED_A_ROW_BYTES,
                  scales_offset = fp4_offset + GROUPED_COLUMNS * STAGE_FP4_BYTES;
    if (warp == COPIES_A || p.scales_by_previous_kernel) {
        griddepcontrol_wait(); /* the previous kernel makes this operand */
    }
    struct ring ring = ring_to_fill();
    for (int32_t k = 0; k < coord.stages; k++) {
        wait(empty_of(stages, ring.stage), ring.parity);
        const struct mbarrier full = full_of(stages, ring.stage);
        const uint32_t to = stages.address + ring.stage * stages.stage_bytes;
        if (elect_sync()) {
            if (warp == COPIES_B) {
                mbarrier_arrive_expect_tx(full, GROUPED_STAGE_TX_BYTES(0) + a_bytes);
                cp_async_bulk_tensor_3d(to + fp4_offset, &group.b, (coord.first_stage + k) * STAGE_FP4_BYTES,
                                        coord.n, 0, full);
            } else if (warp == COPIES_SCALES) {
                cp_async_bulk(to + scales_offset, scales + (int64_t)k * STAGE_SCALE_BYTES, STAGE_SCALE_BYTES,
                              full);
            } else {
                cp_async_bulk(to, a + k * a_stage_bytes, (uint32_t)a_bytes, full);
            }
        }
        if (++ring.stage == stages.stages) {
            ring.stage = 0;
            ring.parity ^= 1;
        }
    }
}

/* ---- parts of tiles ---- */

/* For the two CTAs of a tile whose K is shared: the first to come gives its accumulators away, the last one
 * adds them to its own and returns true.  A CTA never waits for one that may not have started. */
template <class T>
static __device__ __forceinline__ bool sum_parts(float (&acc)[T::m_blocks][T::accs], shared_t<T> shared,
                                                 const struct hopper_group &group) {
    const int thread = threadIdx.x - WARPGROUP_THREADS;
    const int32_t tile = ((int32_t)blockIdx.x - group.first_tile) / group.parts;
    const uint32_t claimed = SHARED_MEMBER(shared, stages); /* the stages are free */
    uint32_t *arrivals = group.arrivals + tile;
    float4 *sums = (float4 *)group.sums + (int64_t)tile * T::vectors * T::finishers + thread;
    if (thread == 0) {
        griddepcontrol_wait(); /* the previous kernel zeroes the word */
        st_shared_u32(claimed, atom_add_relaxed_gpu(arrivals, 1));
    }
    bar_sync(CONSUMER_BARRIER, T::finishers);
    const bool last = ld_shared_u32(claimed) > 0;
    if (last && thread == 0) {
        while (ld_acquire_gpu(arrivals) <
               3) { /* until the first CTA has counted a second time, after its stores */
        }
    }
    if (!last) {
#pragma unroll
        for (int i = 0; i < T::vectors; i++) {
            const float *four = &acc[i * 4 / T::accs][i * 4 % T::accs];
            sums[i * T::finishers] = make_float4(four[0], four[1], four[2], four[3]);
        }
    }
    bar_sync(CONSUMER_BARRIER, T::finishers);
    if (!last) {
        if (thread == 0) {
            red_add_release_gpu(arrivals, 1);
        }
        return false;
    }
#pragma unroll
    for (int i = 0; i < T::vectors; i++) {
        const float4 other = sums[i * T::finishers];
        float *four = &acc[i * 4 / T::accs][i * 4 % T::accs];
        four[0] += other.x;
        four[1] += other.y;
        four[2] += other.z;
        four[3] += other.w;
    }
    return true;
}

/* ---- epilogue ---- */

/* store_output of the dual GEMM in fewer instructions, since fetching them in each CTA is what takes the time.
 * A thread stores the same columns of every 16th row. */
template <class T>
static __device__ __forceinline__ void store_every_16th(const unsigned char *output,
                                                        const struct tile_coord &coord,
                                                        const struct hopper_dual_gemm_params &p) {
    constexpr int vectors = T::columns / VECTOR_OUTPUTS, step = T::finishers / vectors;
    const int thread = threadIdx.x - WARPGROUP_THREADS, first = thread / vectors,
              column = thread % vectors * VECTOR_OUTPUTS, rows = min(T::tile_m, p.m - coord.m),
              columns = p.n - coord.n - column;
    const unsigned char *from = output + first * T::output_row_bytes + column * FP16_BYTES;
    uint16_t *to = p.c + (int64_t)(coord.m + first) * p.n + coord.n + column;
    const bool vectorized = p.n % VECTOR_OUTPUTS == 0;
    if (columns <= 0) {
        return;
    }
#pragma unroll 1
    for (int row = first; row < rows; row += step) {
        if (vectorized) {
            *(uint4 *)to = *(const uint4 *)from;
        } else {
#pragma unroll 1
            for (int half = 0; half < min(VECTOR_OUTPUTS, columns); half++) {
                to[half] = ((const uint16_t *)from)[half];
            }
        }
        from += step * T::output_row_bytes;
        to += (int64_t)step * p.n;
    }
}

/* ---- kernel ---- */

/* The products of a tile, or of its part of K, then its rows of C. */
template <class T, bool shares>
static __device__ __forceinline__ void consume_grouped(shared_t<T> shared, struct shared_storage<T> *storage,
                                                       const struct tile_coord &coord,
                                                       const struct hopper_group &group) {
    float acc[T::m_blocks][T::accs];
    multiply<T>(acc, shared, coord);
    bar_sync(CONSUMER_BARRIER, T::finishers); /* the stages are free */
    if constexpr (shares) {
        if (group.parts > 1 && !sum_parts<T>(acc, shared, group)) {
            return;
        }
    }
    static_assert(sizeof(checked_stages<T>) > 0, "checks the sizes of a stage");
    unsigned char *output = (unsigned char *)&storage->stages[0];
    stage_output<T>(cvta_to_shared(output), threadIdx.x / WARPGROUP_THREADS - 1,
                    [&](int block, int eight, int part) {
                        const float *two = &acc[block][eight * 4 + 2 * part];
                        return cvt_rn_f16x2_f32(two[0] * PRODUCT_CORRECTION, two[1] * PRODUCT_CORRECTION);
                    });
    bar_sync(CONSUMER_BARRIER, T::finishers);
    store_every_16th<T>(output, coord, group.gemm);
}

/* A CTA with one tile of a group. */
template <bool shares> struct grouped_work {
    using storage = unsigned char; /* a ring, whose type is the tile's */
    static constexpr int copying_registers = COPYING_REGISTERS, multiplying_registers = MULTIPLYING_REGISTERS;
    const struct hopper_group &group;

    __device__ __forceinline__ void start(storage *memory) const {
        if (threadIdx.x == 0) {
            const struct stages_of_group stages = stages_of(group, cvta_to_shared(memory));
            prefetch_tensormap(&group.b);
            for (int stage = 0; stage < stages.stages; stage++) {
                mbarrier_init(full_of(stages, stage), 1);
                mbarrier_init(empty_of(stages, stage), GROUPED_WARPGROUPS * WARPGROUP_THREADS);
            }
            fence_mbarrier_init();
        }
    }

    __device__ __forceinline__ void copy(storage *memory) const {
        const int warp = uniform_warp();
        if (warp < COPYING_WARPS) {
            load_operand(stages_of(group, cvta_to_shared(memory)), find_grouped_tile<shares>(group), group,
                         warp);
        }
    }

    __device__ __forceinline__ void multiply(storage *memory) const {
        with_tile(group.tile, [&](auto tile) {
            using T = decltype(tile);
            consume_grouped<T, shares>(ring_of<T>(memory), (typename layout_of<T>::storage *)memory,
                                       find_grouped_tile<shares>(group), group);
        });
    }
};

template <class P, bool shares>
static __global__ void __launch_bounds__(CTA_THREADS(GROUPED_WARPGROUPS), 1)
    grouped_gemm_kernel(const __grid_constant__ P p) {
    extern __shared__ unsigned char memory[];
    run_tiles(first_atom(memory), grouped_work<shares>{find_group(p)});
}

} // namespace hopper

#endif
