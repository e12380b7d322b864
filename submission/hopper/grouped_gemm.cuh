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

/* Two chains of accumulators: with three in one kernel of all tiles, ptxas serializes wgmma. */
template <int tile_m, int stages> struct grouped_tile : tile<GROUPED_WARPGROUPS, 1, tile_m, stages, 1, 1, 2> {
    using base = tile<GROUPED_WARPGROUPS, 1, tile_m, stages, 1, 1, 2>;
    static constexpr int products = 1, columns = GROUPED_COLUMNS;
    static constexpr int output_row_bytes = columns * FP16_BYTES + OUTPUT_PAD_BYTES;
    static constexpr int output_bytes = base::output_boxes * WARP_THREADS * output_row_bytes;

    static_assert(columns == SCALE_TILE_ROWS && columns == 2 * base::tile_n,
                  "both halves of a tile's rows of B have their scale factors in the one scale tile");
    static_assert(base::tile_n % SCALE_ENTRIES == 0,
                  "a row's and its counterpart's words lie equally far apart");
};

/* Calls `function` with a value of the type of tile number `number`. */
template <class F> static __device__ __forceinline__ void with_tile(int32_t number, F function) {
    int32_t i = 0;
#define CALL_IF(name, tile_m, stages)                                                                          \
    if (number == i++) {                                                                                       \
        function(grouped_tile<tile_m, stages>());                                                              \
    }
    HOPPER_GROUPED_TILES(CALL_IF)
#undef CALL_IF
}

/* The group whose tile this CTA computes; the last one's tiles are the last. */
template <class P> static __device__ __forceinline__ const struct hopper_group &find_group(const P &p) {
    int32_t index = 0;
    while (index + 1 < p.groups && (int32_t)blockIdx.x >= p.group[index + 1].first_tile) {
        index++;
    }
    return p.group[index];
}

/* As find_tile of the dual GEMM: the last tile of rows is moved up to end with A. */
static __device__ __forceinline__ struct tile_coord find_grouped_tile(const struct hopper_group &group,
                                                                      int32_t tile_m) {
    int32_t number = (int32_t)blockIdx.x - group.first_tile;
    struct tile_coord coord;
    coord.n = number / group.tiles_m * GROUPED_COLUMNS;
    coord.first_row = number % group.tiles_m * tile_m;
    coord.m = min(coord.first_row, group.gemm.m - group.gemm.a_box_rows);
    coord.batch = 0;
    coord.scale_tile = coord.n / SCALE_TILE_ROWS;
    coord.rank = 0;
    coord.first_stage = 0;
    coord.stages = group.gemm.stages_k;
    return coord;
}

/* ---- kernel ---- */

/* One thread: the barriers of tile T. */
template <class T> static __device__ __forceinline__ void init_barriers(shared_t<T> shared) {
    for (int stage = 0; stage < T::stages; stage++) {
        mbarrier_init(full_barrier<T>(shared, stage), 1);
        mbarrier_init(empty_barrier<T>(shared, stage), T::finishers);
    }
    fence_mbarrier_init();
}

template <class P>
static __global__ void __launch_bounds__(CTA_THREADS(GROUPED_WARPGROUPS), 1)
    grouped_gemm_kernel(const __grid_constant__ P p) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    unsigned char *aligned = memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    const uint32_t address = cvta_to_shared(aligned);
    const struct hopper_group &group = find_group(p);

    if (threadIdx.x == 0) {
        prefetch_tensormap(&group.a);
        prefetch_tensormap(&group.b);
        with_tile(group.tile, [&](auto tile) { init_barriers<decltype(tile)>({address}); });
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            with_tile(group.tile, [&](auto tile) {
                using T = decltype(tile);
                struct tile_coord coord = find_grouped_tile(group, T::tile_m);
                load<T>({address}, coord, group.gemm, &group.a, &group.b, &group.b);
            });
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS(GROUPED_WARPGROUPS)>();
        with_tile(group.tile, [&](auto tile) {
            using T = decltype(tile);
            struct tile_coord coord = find_grouped_tile(group, T::tile_m);
            consume<T>({address}, (typename layout_of<T>::storage *)aligned, coord, group.gemm);
        });
    }
}

} // namespace hopper

#endif
