/* The grouped GEMM for sm_100a and sm_103a, c_i = a_i b_i^T: the dual GEMM's kernel with another list of tiles
 * and another epilogue.
 *
 * Read blackwell_dual_gemm.cuh first.  The first and the second half of a tile's rows of the group's only B
 * take the places of B1 and B2, so that copies, products and barriers are the same code.  acc_gate and acc_up
 * hold the two halves of a tile's columns; the first half is stored while the last products of the second run.
 * A CTA, or a pair, computes one tile.  The host sorts the tiles of all groups into one list, the longest
 * first, and the chip deals them out. Everything about a group is in the kernel's parameters.  Transposed
 * tiles: blackwell_transposed_gemm.cuh. */
#ifndef BLACKWELL_GROUPED_GEMM_CUH
#define BLACKWELL_GROUPED_GEMM_CUH

#include "../blackwell_dual_gemm.cuh"

namespace blackwell {

template <int tile_n, int stages, int ctas, int tail, int split_k>
struct grouped_tile : tile<tile_n, stages, ctas, tail, split_k> {
    static constexpr int products = 1, columns = 2 * tile_n;

    template <class P> static __device__ __forceinline__ const CUtensorMap *second_b(const P &group) {
        return &group.b1;
    }

    template <class P> static __device__ __forceinline__ const CUtensorMap *second_sfb(const P &group) {
        return &group.sfb1;
    }

    template <class P> static __device__ __forceinline__ void prefetch_maps(const P &group) {
        prefetch_tensormap(&group.b1);
        prefetch_tensormap(&group.a);
        prefetch_tensormap(&group.sfb1);
        prefetch_tensormap(&group.sfa);
    }

    static_assert(split_k == 1, "the grouped GEMM splits no K: the reduction is written for two products");
};

/* A tile's group, and its number there. */
struct tile_of_group {
    const struct blackwell_group &group;
    int32_t number;
};

/* The group of tile number `number` of all. */
template <class P>
static __device__ __forceinline__ struct tile_of_group find_group(const P &p, int32_t number) {
    constexpr int32_t most = sizeof p.first_tile / sizeof p.first_tile[0];
    int32_t index = 0, first = 0;
    while (index + 1 < most && number >= p.first_tile[index + 1]) {
        first = p.first_tile[++index];
    }
    return {p.group[index], number - first};
}

template <class T, class P>
static __device__ __forceinline__ struct tile_coord find_grouped_tile(const P &group, int32_t number) {
    struct tile_coord coord;
    coord.rank = blockIdx.x % T::ctas;
    coord.split = 0;
    coord.m = (number % group.tiles_m * T::ctas + coord.rank) * TILE_M;
    coord.n = number / group.tiles_m * T::columns;
    coord.batch = 0;
    coord.first_stage = 0;
    coord.steps = group.steps_k;
    return coord;
}

/* Stores two sectors of each row of C from `column` of the tile on.  Two lanes exchange a sector; they store
 * the even lane's row and then the odd one's, because sectors of a line cost less in one store than in two. */
static __device__ __forceinline__ void store_two_sectors(const struct output_row &row, int column,
                                                         const uint32_t (&halves)[SECTOR_HALVES],
                                                         const struct tile_coord &coord,
                                                         const struct blackwell_group &group) {
    constexpr int words = SECTOR_HALVES / 2;
    const bool odd = threadIdx.x % 2 != 0;
    const int32_t lanes_row =
        (int32_t)(threadIdx.x / WARP_THREADS % TMEM_QUARTERS * WARP_THREADS + threadIdx.x % WARP_THREADS);
    const int32_t rows = group.m - (coord.m + lanes_row - odd); /* that exist from the even lane's on */
    uint32_t even_row[words], odd_row[words];
#pragma unroll
    for (int i = 0; i < words; i++) {
        const uint32_t others = shfl_sync_bfly(odd ? halves[i] : halves[words + i], 1);
        even_row[i] = odd ? others : halves[i];
        odd_row[i] = odd ? halves[words + i] : others;
    }
    uint16_t *to = row.to + column + (odd ? SECTOR_HALVES - group.n : 0);
    if (rows > 0) {
        st_global_v8(to, even_row);
    }
    if (rows > 1) {
        st_global_v8(to + group.n, odd_row);
    }
}

/* Epilogue warp of the grouped GEMM: both accumulators hold columns of one product. */
template <class T>
static __device__ __forceinline__ void epilogue_plain(shared_t<T> shared, const struct output_row &row,
                                                      const struct tile_coord &coord,
                                                      const struct blackwell_group &group) {
    constexpr int halves = T::joint_mma ? 1 : 2;
    using parts = column_parts<2 * T::tile_n / halves>;
    static_assert(parts::all % COLUMN_GROUPS == 0, "the column groups share the parts evenly");
    static_assert(T::up_column == T::tile_n, "the second half of a tile's columns follows the first in TMEM");
#pragma unroll
    for (int half = 0; half < halves; half++) {
        float acc[parts::of_warp][parts::columns];
        wait(half + 1 < halves ? gate_full_barrier<T>(shared) : up_full_barrier<T>(shared), 0);
        tcgen05_fence_after_thread_sync();
        start_load(acc[0], tmem_column(row.acc, half * T::tile_n + parts::column(row, 0)));
#pragma unroll
        for (int i = 0; i < parts::of_warp; i++) {
            uint32_t fp16[parts::columns / 2];
            const int column = half * T::tile_n + parts::column(row, i);
            await_loads(acc[i]);
            if (i + 1 < parts::of_warp) { /* arrives while this part is stored */
                start_load(acc[i + 1], tmem_column(row.acc, half * T::tile_n + parts::column(row, i + 1)));
            } else if (half + 1 == halves) {
                leave_tmem();
            }
#pragma unroll
            for (int j = 0; j < parts::columns; j += 2) {
                fp16[j / 2] = cvt_rn_f16x2_f32(acc[i][j], acc[i][j + 1]);
            }
            /* The exchange takes as long as a few stores: it waits behind those of the first part. */
            const bool behind = half > 0 || i > 0 || row.group > 0;
            if (behind && row.sectors && group.n - coord.n - column >= parts::columns) {
                store_two_sectors(row, column, fp16, coord, group);
            } else {
                store_row<parts::columns>(row, column, fp16);
            }
        }
    }
}

struct grouped_epilogue {
    template <class T>
    static __device__ __forceinline__ void run(shared_t<T> shared, struct tmem_addr acc,
                                               const struct tile_coord &coord,
                                               const struct blackwell_group &group) {
        struct output_row row = find_row(acc, coord, group);
        epilogue_plain<T>(shared, row, coord, group);
    }
};

template <class T, class P>
static __global__ void __launch_bounds__(CTA_THREADS, 1) grouped_gemm_kernel(const __grid_constant__ P p) {
    const struct tile_of_group tile = find_group(p, blockIdx.x / T::ctas);
    run_tile<T, grouped_epilogue>(find_grouped_tile<T>(tile.group, tile.number), tile.group);
}

} // namespace blackwell

#endif
