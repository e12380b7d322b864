/* The grouped GEMM for sm_90a, c_i = a_i b_i^T: the dual GEMM's kernel with another list of tiles and another
 * epilogue.
 *
 * Read dual_gemm.cuh first.  Its two operands B1 and B2 are here the first and the second half of a tile's rows
 * of the group's only B, so that load, dequantization, products and pipeline are the same code, and a tile has
 * twice as many columns.  A CTA computes one tile; tiles of all groups have one list, which the host made the
 * longest first, and the chip deals out.  A group's rows say its tile, and a CTA runs the code of that tile
 * alone: so rows of A that do not exist are few.  All that a group needs is in the kernel's parameters. */
#ifndef HOPPER_GROUPED_GEMM_CUH
#define HOPPER_GROUPED_GEMM_CUH

#include "dual_gemm.cuh"
#include "kernels.h"

namespace hopper {

/* ---- tiles ---- */

template <int tile_m, int stages> struct grouped_tile : tile<GROUPED_WARPGROUPS, 1, tile_m, stages, 1, 1> {
    using base = tile<GROUPED_WARPGROUPS, 1, tile_m, stages, 1, 1>;
    static constexpr int products = 1, columns = GROUPED_COLUMNS;
    /* ptxas puts the wgmma of 176 rows with two one after another. */
    static constexpr int chains = 1;

    static_assert(columns == SCALE_TILE_ROWS && columns == 2 * base::tile_n,
                  "both halves of a tile's rows of B have their scale factors in the one scale tile");
    static_assert(base::tile_n % SCALE_ENTRIES == 0,
                  "a row's and its counterpart's words lie equally far apart");
    static_assert(stages * (GROUPED_STAGE_BYTES(tile_m) + 2 * MBARRIER_BYTES) <= GROUPED_TILES_BYTES && stages <= GROUPED_MAX_STAGES,
                  "what follows the tile's stages lies behind them");
};

/* Calls `function` with the number and a value of the type of each tile. */
template <class F> static __device__ __forceinline__ void each_tile(F function) {
    int32_t i = 0;
#define CALL(name, tile_m, stages) function(i++, grouped_tile<tile_m, stages>());
    HOPPER_GROUPED_TILES(CALL)
#undef CALL
}

/* ---- shares of the work ---- */

/* A stage of a tile: of number `tile` in the launch. */
struct position {
    int32_t tile, stage;
};

/* The group of a tile; the last one's tiles are the last. */
template <class P> static __device__ __forceinline__ const struct hopper_group &group_of(const P &p, int32_t tile) {
    int32_t index = 0;
    while (index + 1 < p.sharing.groups && tile >= p.group[index + 1].first_tile) {
        index++;
    }
    return p.group[index];
}

/* Where range `range` begins: never so near to an end of a tile that a part would hardly be worth it. */
template <class P> static __device__ __forceinline__ struct position begin_of(const P &p, int32_t range) {
    struct position at = {range, 0};
    if (p.sharing.share != 0) {
        uint32_t cost = p.sharing.share * range + min((uint32_t)range, p.sharing.rest);
        int32_t index = 0;
        while (index + 1 < p.sharing.groups && cost >= p.group[index + 1].first_cost) {
            index++;
        }
        const struct hopper_group &group = p.group[index];
        const int32_t stages = group.gemm.stages_k;
        cost -= group.first_cost;
        at.tile = cost / group.tile_cost;
        at.stage = (cost - at.tile * group.tile_cost) / group.stage_cost;
        at.tile += group.first_tile;
        if (at.stage < GROUPED_LEAST_STAGES) {
            at.stage = 0;
        } else if (at.stage > stages - GROUPED_LEAST_STAGES) {
            at.stage = 0;
            at.tile++;
        }
    }
    return at;
}

static __device__ __forceinline__ bool before(const struct position &x, const struct position &y) {
    return x.tile != y.tile ? x.tile < y.tile : x.stage < y.stage;
}

/* The part of a tile from `at` on, up to the position `end` or the tile's end.  As find_tile of the dual GEMM:
 * the last tile of rows is moved up to end with A. */
static __device__ __forceinline__ struct tile_coord find_part(const struct hopper_group &group, int32_t tile_m,
                                                              const struct position &at,
                                                              const struct position &end) {
    struct tile_coord coord;
    const int32_t number = at.tile - group.first_tile;
    coord.n = number / group.tiles_m * GROUPED_COLUMNS;
    coord.first_row = number % group.tiles_m * tile_m;
    coord.m = min(coord.first_row, group.gemm.m - group.gemm.a_box_rows);
    coord.batch = 0;
    coord.scale_tile = coord.n / SCALE_TILE_ROWS;
    coord.rank = 0;
    coord.first_stage = at.stage;
    coord.stages =
        (at.tile == end.tile ? end.stage : group.gemm.stages_k) - at.stage;
    return coord;
}

/* ---- load ---- */

/* Producer, one thread: as load of the dual GEMM, for a tile of any kind. */
static __device__ __forceinline__ void load_part(uint32_t shared, const struct tile_coord &coord,
                                                 const struct hopper_group &group) {
    const struct hopper_dual_gemm_params &p = group.gemm;
    const uint32_t fp4 = group.tile_rows * (STAGE_K * FP16_BYTES), stage_bytes = fp4 + GROUPED_STAGE_BYTES(0);
    const uint32_t barriers = shared + group.barriers_offset, empty = group.tile_stages * MBARRIER_BYTES;
    const uint8_t *scales = p.sfb1 + ((int64_t)coord.scale_tile * p.scale_tiles_k + coord.first_stage * STAGE_SCALE_TILES) * SCALE_TILE_BYTES;
    auto load_b = [&](int32_t stage, int32_t i) {
        const struct mbarrier full = {barriers + stage * MBARRIER_BYTES};
        const uint32_t to = shared + stage * stage_bytes + fp4;
        const int32_t k = (coord.first_stage + i) * STAGE_FP4_BYTES;
        mbarrier_arrive_expect_tx(full, p.stage_tx_bytes);
        cp_async_bulk_tensor_3d(to, &group.b, k, coord.n, 0, full);
        cp_async_bulk_tensor_3d(to + GROUPED_COLUMNS / 2 * STAGE_FP4_BYTES, &group.b, k, coord.n + GROUPED_COLUMNS / 2, 0, full);
        cp_async_bulk(to + GROUPED_COLUMNS * STAGE_FP4_BYTES, scales + (int64_t)i * STAGE_SCALE_BYTES, STAGE_SCALE_BYTES, full);
    };
    auto load_a = [&](int32_t stage, int32_t i) {
        const struct mbarrier full = {barriers + stage * MBARRIER_BYTES};
        const uint32_t to = shared + stage * stage_bytes;
        const int32_t k = (coord.first_stage + i) * STAGE_K;
        cp_async_bulk_tensor_3d(to, &group.a, k, coord.m, 0, full);
        cp_async_bulk_tensor_3d(to + group.tile_rows * A_BOX_BYTES, &group.a, k + A_BOX_K, coord.m, 0, full);
    };
    if (p.scales_by_previous_kernel) {
        griddepcontrol_wait();
    }
    const int32_t ahead = min(group.tile_stages, coord.stages);
    for (int32_t i = 0; i < ahead; i++) {
        load_b(i, i);
    }
    griddepcontrol_wait();
    for (int32_t i = 0; i < ahead; i++) {
        load_a(i, i);
    }
    int32_t stage = 0;
    uint32_t parity = 0;
    for (int32_t i = ahead; i < coord.stages; i++) {
        wait({barriers + empty + stage * MBARRIER_BYTES}, parity);
        load_b(stage, i);
        load_a(stage, i);
        stage++;
        if (stage == group.tile_stages) {
            stage = 0;
            parity ^= 1;
        }
    }
}

/* ---- parts of tiles ---- */

/* A thread's accumulators, for the CTA that has the beginning of the tile. */
template <class T>
static __device__ __forceinline__ void give_part(float (&acc)[T::m_blocks][T::accs], float *part, uint32_t *ready) {
    float4 *to = (float4 *)part + (threadIdx.x - WARPGROUP_THREADS);
#pragma unroll
    for (int i = 0; i < T::vectors; i++) {
        const float *four = &acc[i * 4 / T::accs][i * 4 % T::accs];
        to[i * T::consumers] = make_float4(four[0], four[1], four[2], four[3]);
    }
    bar_sync(CONSUMER_BARRIER, T::consumers);
    if (threadIdx.x == WARPGROUP_THREADS) {
        red_release_gpu_add(ready, 1);
    }
}

/* Adds the parts of the tile that other CTAs have, in order of K: ranges after `range`. */
template <class T, class P>
static __device__ __forceinline__ void take_parts(float (&acc)[T::m_blocks][T::accs], const P &p, int32_t range,
                                                  int32_t tile) {
    const struct position end = {tile + 1, 0};
    struct position begin = begin_of(p, ++range);
    while (range < p.sharing.ranges && before(begin, end)) {
        const struct position next = begin_of(p, range + 1);
        if (before(begin, next)) {
            while (ld_acquire_gpu(p.sharing.ready + range) == 0) {
            }
            const float4 *from = (const float4 *)((const char *)p.sharing.parts + range * p.sharing.part_bytes) +
                                 (threadIdx.x - WARPGROUP_THREADS);
#pragma unroll
            for (int i = 0; i < T::vectors; i++) {
                float4 other = from[i * T::consumers];
                float *four = &acc[i * 4 / T::accs][i * 4 % T::accs];
                four[0] += other.x;
                four[1] += other.y;
                four[2] += other.z;
                four[3] += other.w;
            }
        }
        begin = next;
        range++;
    }
}

/* ---- epilogue ---- */

/* Accumulators -> fp16 -> C, each warp by itself, through its part of shared memory: 16 rows of C at a time, of
 * which it has 16 columns.  HW: a sector of L2 that is written by halves costs a read (measured:H200: 4 us a
 * tile). */
template <class T>
static __device__ __forceinline__ void store_tile(float (&acc)[T::m_blocks][T::accs], uint32_t output,
                                                  const struct tile_coord &coord,
                                                  const struct hopper_dual_gemm_params &p) {
    const int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS - 4;
    const uint32_t vectors = output + warp * GROUPED_WARP_OUTPUT_BYTES;
    /* Vector v of row r lies at 2 r + (v ^ r / 4 % 2): no bank conflicts.  Matrices: rows 0-7 and 8-15 of vector 0,
     * the same of vector 1. */
    const int to_row = lane % 16, row = lane / 2;
    const uint32_t to = vectors + (2 * to_row + (lane / 16 ^ to_row / 4 % 2)) * 16,
                   from = vectors + (2 * row + (lane % 2 ^ row / 4 % 2)) * 16;
    const int32_t column = coord.n + warp * 16 + lane % 2 * VECTOR_HALVES;
#pragma unroll
    for (int first = 0; first < T::tile_m; first += 16) {
        uint32_t halves[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            halves[i] = plain_outputs(&acc[0][(first / 8 + i % 2) * 4 + i / 2 * 2]);
        }
        stmatrix_x4_trans(to, halves);
        __syncwarp();
        const uint4 eight = ld_shared_v4(from);
        __syncwarp();
        const int32_t row_of_c = coord.m + first + row;
        if (row_of_c >= coord.first_row && row_of_c < p.m && column < p.n) {
            uint16_t *c = p.c + (int64_t)row_of_c * p.n + column;
            if (p.n % VECTOR_HALVES == 0) {
                *(uint4 *)c = eight;
            } else {
                const uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
                for (int i = 0; i < VECTOR_HALVES; i++) {
                    if (column + i < p.n) {
                        c[i] = (uint16_t)(words[i / 2] >> (i % 2 * 16));
                    }
                }
            }
        }
    }
}

/* ---- kernel ---- */

/* At the launch: what leaves room for a CTA of the dequantization of the next call. */
#define GROUPED_REGISTERS          160
#define GROUPED_PRODUCER_REGISTERS 32
#define GROUPED_CONSUMER_REGISTERS 224

/* The barriers of a group's tile, by lanes 0 .. stages - 1 of a warp. */
static __device__ __forceinline__ void init_barriers(const struct hopper_group &group, uint32_t shared, int lane) {
    if (lane < group.tile_stages) {
        const struct mbarrier full = {shared + group.barriers_offset + lane * MBARRIER_BYTES};
        mbarrier_init(full, 1);
        mbarrier_init({full.address + group.tile_stages * MBARRIER_BYTES}, GROUPED_WARPGROUPS * WARPGROUP_THREADS);
        fence_mbarrier_init();
    }
}

static __device__ __forceinline__ void inval_barriers(const struct hopper_group &group, uint32_t shared, int lane) {
    if (lane < group.tile_stages) {
        const struct mbarrier full = {shared + group.barriers_offset + lane * MBARRIER_BYTES};
        mbarrier_inval(full);
        mbarrier_inval({full.address + group.tile_stages * MBARRIER_BYTES});
    }
}

template <class P>
static __global__ void __maxnreg__(GROUPED_REGISTERS)
    grouped_gemm_kernel(const __grid_constant__ P p) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    const uint32_t address = cvta_to_shared(memory) + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    const struct mbarrier free = {address + GROUPED_FREE_OFFSET};
    const int32_t range = p.sharing.ranges - 1 - (int32_t)blockIdx.x;
    struct position at = begin_of(p, range);
    const struct position end = begin_of(p, range + 1);

    if (threadIdx.x < WARP_THREADS) {
        const struct hopper_group &group = group_of(p, at.tile);
        init_barriers(group, address, threadIdx.x);
        if (threadIdx.x == 0) {
            prefetch_tensormap(&group.a);
            prefetch_tensormap(&group.b);
            mbarrier_init(free, GROUPED_WARPGROUPS * WARPGROUP_THREADS);
            fence_mbarrier_init();
        }
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<GROUPED_PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            for (uint32_t parity = 0; before(at, end); parity ^= 1) {
                const struct hopper_group &group = group_of(p, at.tile);
                load_part(address, find_part(group, group.tile_rows, at, end), group);
                at = {at.tile + 1, 0};
                if (before(at, end)) {
                    wait(free, parity);
                }
            }
        }
    } else {
        setmaxnreg_inc<GROUPED_CONSUMER_REGISTERS>();
        each_tile([&](int32_t number, auto tile) {
            using T = decltype(tile);
            while (before(at, end)) {
                const struct hopper_group &group = group_of(p, at.tile);
                if (group.tile != number) {
                    break;
                }
                const struct tile_coord coord = find_part(group, T::tile_m, at, end);
                float acc[T::m_blocks][T::accs];
#pragma unroll
                for (int i = 0; i < T::m_blocks * T::accs; i++) { /* or they live from one tile to the next */
                    acc[i / T::accs][i % T::accs] = 0;
                }
                multiply<T>(acc, {address}, coord);
                bar_sync(CONSUMER_BARRIER, T::consumers); /* the stages are free */
                if (before({at.tile + 1, 0}, end)) {
                    if (threadIdx.x < WARPGROUP_THREADS + WARP_THREADS) {
                        inval_barriers(group, address, threadIdx.x % WARP_THREADS);
                        __syncwarp();
                        init_barriers(group_of(p, at.tile + 1), address, threadIdx.x % WARP_THREADS);
                    }
                    mbarrier_arrive(free);
                }
                if (coord.first_stage > 0) {
                    griddepcontrol_wait(); /* it made `ready` */
                    give_part<T>(acc, (float *)((char *)p.sharing.parts + range * p.sharing.part_bytes),
                                 p.sharing.ready + range);
                } else {
                    if (coord.stages < group.gemm.stages_k) {
                        griddepcontrol_wait();
                        take_parts<T>(acc, p, range, at.tile);
                    }
                    store_tile<T>(acc, address + GROUPED_OUTPUT_OFFSET, coord, group.gemm);
                }
                bar_sync(CONSUMER_BARRIER, T::consumers); /* the next tile's barriers are there */
                at = {at.tile + 1, 0};
            }
        });
    }
}

} // namespace hopper

#endif
