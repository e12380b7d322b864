/* The grouped GEMM for sm_100a and sm_103a, c_i = a_i b_i^T: the dual GEMM's kernel with another list of tiles
 * and another epilogue.
 *
 * Read blackwell_dual_gemm.cuh first.  The first and the second half of a tile's rows of the group's only B
 * take the places of B1 and B2, so that copies, products and barriers are the same code.  acc_gate and acc_up
 * hold the two halves of a tile's columns; the first half is stored while the last products of the second run.
 * A CTA, or a pair, computes one tile.  The host sorts the tiles of all groups into one list, the longest
 * first, and the chip deals them out. Everything about a group is in the kernel's parameters. */
#ifndef BLACKWELL_GROUPED_GEMM_CUH
#define BLACKWELL_GROUPED_GEMM_CUH

#include "../blackwell_dual_gemm.cuh"

namespace blackwell {

template <int tile_n, int stages, int ctas, int tail, int split_k>
struct grouped_tile : tile<tile_n, stages, ctas, tail, split_k> {
    static constexpr int products = 1, columns = 2 * tile_n;

    static __device__ __forceinline__ const CUtensorMap *second_b(const struct blackwell_group &group) {
        return &group.b1;
    }

    static __device__ __forceinline__ const CUtensorMap *second_sfb(const struct blackwell_group &group) {
        return &group.sfb1;
    }

    static __device__ __forceinline__ void prefetch_maps(const struct blackwell_group &group) {
        prefetch_tensormap(&group.b1);
        prefetch_tensormap(&group.a);
        prefetch_tensormap(&group.sfb1);
        prefetch_tensormap(&group.sfa);
    }

    static_assert(split_k == 1, "the grouped GEMM splits no K: the reduction is written for two products");
};

template <int tile_n, int stages, int ctas, int tail, int split_k>
struct turned_tile : grouped_tile<tile_n, stages, ctas, tail, split_k> {
    static constexpr bool turned = true;
    static_assert(ctas == 2 && STACKED(tail, split_k), "one MMA of a pair computes the tile");
};

/* The group of tile number `number`. */
template <class P>
static __device__ __forceinline__ const struct blackwell_group &find_group(const P &p, int32_t number) {
    int32_t index = 0;
    while (index + 1 < p.groups && number >= p.group[index + 1].first_tile) {
        index++;
    }
    return p.group[index];
}

template <class T>
static __device__ __forceinline__ struct tile_coord find_grouped_tile(const struct blackwell_group &group,
                                                                      int32_t number) {
    number -= group.first_tile;
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

/* In a turned tile coord.m counts rows of B, which are columns of C, and coord.n rows of A and C. */
template <class T>
static __device__ __forceinline__ struct tile_coord find_turned_tile(const struct blackwell_group &group,
                                                                     int32_t number) {
    struct tile_coord coord = find_grouped_tile<T>(group, number);
    number -= group.first_tile;
    coord.m = (number / group.tiles_m * T::ctas + coord.rank) * TILE_M;
    coord.n = number % group.tiles_m * T::columns;
    coord.columns = group.columns;
    return coord;
}

#define TURNED_COLUMNS 16 /* accumulator columns that a lane loads at once */

/* Two outputs of a lane, of two rows of C and the lane's column; neighbouring lanes have neighbouring columns.
 * The even lane stores both lanes' outputs of the first row, the odd lane those of the second, `to` being where
 * its own is. */
static __device__ __forceinline__ void store_two_rows(uint16_t *to, uint32_t both, bool exists) {
    const uint32_t others = shfl_sync_bfly(both, 1);
    const bool odd = threadIdx.x % 2 != 0;
    const uint32_t word = odd ? prmt(others, both, 0x7632) : prmt(both, others, 0x5410);
    if (exists) {
        *(uint32_t *)(to - odd) = word;
    }
}

/* Where a lane of an epilogue warp stores a turned tile's outputs: its column of C, from the tile's first row
 * on. */
struct output_column {
    uint16_t *to;
    int32_t rows; /* of the tile that exist; 0 past the last column */
    int32_t row_step;
    bool even; /* rows of C start at whole words */
};

/* Stores TURNED_COLUMNS rows of C, from `row` of the tile on. */
static __device__ __forceinline__ void store_rows(const struct output_column &column, int32_t row,
                                                  const float (&sums)[TURNED_COLUMNS]) {
    if (column.even) {
        row += threadIdx.x % 2;
        uint16_t *to = column.to + (int64_t)row * column.row_step;
#pragma unroll
        for (int i = 0; i < TURNED_COLUMNS; i += 2, to += 2 * (int64_t)column.row_step) {
            store_two_rows(to, cvt_rn_f16x2_f32(sums[i], sums[i + 1]), row + i < column.rows);
        }
        return;
    }
    uint16_t *to = column.to + (int64_t)row * column.row_step;
#pragma unroll
    for (int i = 0; i < TURNED_COLUMNS; i++, to += column.row_step) {
        if (row + i < column.rows) {
            *to = (uint16_t)cvt_rn_f16x2_f32(sums[i], 0.0f);
        }
    }
}

/* Epilogue warp of a turned tile; a lane has a column of C. Waits for `complete`; loads the next accumulators
 * while it stores the ones before. */
template <class T>
static __device__ __forceinline__ void epilogue_turned(struct tmem_addr acc, const struct tile_coord &coord,
                                                       const struct blackwell_group &group,
                                                       struct mbarrier complete, uint32_t parity) {
    constexpr int step = COLUMN_GROUPS * TURNED_COLUMNS;
    const struct output_row place =
        find_row(acc, coord, group); /* for its accumulators and its warp's number */
    const uint32_t quarter = threadIdx.x / WARP_THREADS % TMEM_QUARTERS;
    const int32_t of_lane = coord.m + (int32_t)(quarter * WARP_THREADS + threadIdx.x % WARP_THREADS);
    const struct output_column column = {group.c + (int64_t)coord.n * group.n + of_lane,
                                         of_lane < group.n ? group.m - coord.n : 0, group.n, group.n % 2 == 0};
    wait(complete, parity);
    tcgen05_fence_after_thread_sync();
#pragma unroll 1
    for (int32_t first = place.group * TURNED_COLUMNS; first < coord.columns; first += 2 * step) {
        float sums[TURNED_COLUMNS], next[TURNED_COLUMNS];
        const bool two = first + step < coord.columns;
        start_load(sums, tmem_column(place.acc, first));
        if (two) {
            start_load(next, tmem_column(place.acc, first + step));
        }
        await_loads(sums);
        await_loads(next);
        store_rows(column, first, sums);
        if (two) {
            store_rows(column, first + step, next);
        }
    }
}

/* Two sets of accumulators, used in turn: their barriers, and the phase of tile number `round`.  A turned tile
 * uses neither gate_full nor scales_read for what their names say. */
template <class T>
static __device__ __forceinline__ struct mbarrier complete_barrier(shared_t<T> shared, int32_t round) {
    return round % 2 == 0 ? up_full_barrier<T>(shared) : gate_full_barrier<T>(shared);
}

/* Complete when no warp of the pair reads the tile's accumulators any more; the first CTA's is used. */
template <class T>
static __device__ __forceinline__ struct mbarrier drained_barrier(shared_t<T> shared, int32_t round) {
    return scales_read_barrier<T>(shared, round % 2);
}

static __device__ __forceinline__ uint32_t phase_of(int32_t round) {
    return round / 2 % 2;
}

/* Columns of TMEM with a tile's accumulators: behind those of the tile before, or from the first on. */
struct acc_columns {
    int32_t first, end;
};

template <class T>
static __device__ __forceinline__ struct acc_columns next_columns(const struct acc_columns &before,
                                                                  int32_t columns) {
    const int32_t first = before.end + columns <= T::columns ? before.end : 0;
    return {first, first + columns};
}

/* The tiles of a pair of CTAs, one after another: the load warp fills stages of the next tile and the MMA warp,
 * if TMEM has room, multiplies it while the epilogue warps store this one.  The list has the longest tiles
 * first; every second round takes it backwards, so that each pair gets about as much. */
template <class T, class P> struct turned_tiles {
    const P &p;

    __device__ __forceinline__ int32_t rank(void) const {
        return blockIdx.x % T::ctas;
    }

    __device__ __forceinline__ void prefetch_maps(void) const {
        T::prefetch_maps(find_group(p, number(0)));
    }

    /* The number of this pair's tile in a round; p.tiles or more past the last one. */
    __device__ __forceinline__ int32_t number(int32_t round) const {
        const int32_t pairs = gridDim.x / T::ctas, pair = blockIdx.x / T::ctas;
        return round * pairs + (round % 2 == 0 ? pair : pairs - 1 - pair);
    }

    /* Calls work(coordinates, group, round, whether another tile follows) for each tile. */
    template <class Work> __device__ __forceinline__ void for_each(Work work) const {
#pragma unroll 1
        for (int32_t round = 0; number(round) < p.tiles; round++) {
            const struct blackwell_group &group = find_group(p, number(round));
            work(find_turned_tile<T>(group, number(round)), group, round, number(round + 1) < p.tiles);
        }
    }

    __device__ __forceinline__ void load_tiles(shared_t<T> shared) const {
        struct ring ring = {0, 0};
        int32_t filled = 0;
        for_each([&](const struct tile_coord &coord, const struct blackwell_group &group, int32_t, bool) {
            load<T>(shared, coord, group, ring, filled);
            filled += (coord.steps + STAGE_STEPS - 1) / STAGE_STEPS;
        });
    }

    /* Waits until a tile's accumulators have been read. */
    static __device__ __forceinline__ void await_drained(shared_t<T> shared, int32_t round) {
        while (!mbarrier_try_wait_parity_cluster(drained_barrier<T>(shared, round), phase_of(round))) {
        }
        tcgen05_fence_after_thread_sync();
    }

    __device__ __forceinline__ void multiply_tiles(shared_t<T> shared, struct tmem_addr tmem) const {
        struct ring ring = {0, 0};
        struct acc_columns before = {0, 0};
        for_each([&](const struct tile_coord &coord, const struct blackwell_group &, int32_t round, bool more) {
            const struct acc_columns acc = next_columns<T>(before, coord.columns);
            if (round >= 2) {
                await_drained(shared, round - 2);
            }
            if (round >= 1 && acc.first < before.end && before.first < acc.end) {
                await_drained(shared, round - 1);
            }
            multiply<T>(shared, tmem, acc.first, coord, ring, more, complete_barrier<T>(shared, round));
            before = acc;
        });
    }

    __device__ __forceinline__ void store_tiles(shared_t<T> shared, struct tmem_addr tmem) const {
        struct acc_columns before = {0, 0};
        for_each([&](const struct tile_coord &coord, const struct blackwell_group &group, int32_t round,
                     bool more) {
            const struct acc_columns acc = next_columns<T>(before, coord.columns);
            epilogue_turned<T>(tmem_column(tmem, acc.first), coord, group, complete_barrier<T>(shared, round),
                               phase_of(round));
            if (more) {
                tcgen05_fence_before_thread_sync();
                __syncwarp();
                if (threadIdx.x % WARP_THREADS == 0) {
                    mbarrier_arrive_cluster(mapa_shared_cluster(drained_barrier<T>(shared, round).address, 0));
                }
            }
            before = acc;
        });
        leave_tmem();
    }
};

/* Epilogue warp of the grouped GEMM: both accumulators hold columns of one product.
 */
template <class T>
static __device__ __forceinline__ void epilogue_plain(shared_t<T> shared, const struct output_row &row) {
    constexpr int halves = T::stacked ? 1 : 2;
    using parts = column_parts<2 * T::tile_n / halves>;
    static_assert(T::up_column == T::tile_n, "the second half of a tile's columns follows the first in TMEM");
#pragma unroll
    for (int half = 0; half < halves; half++) {
        wait(half + 1 < halves ? gate_full_barrier<T>(shared) : up_full_barrier<T>(shared), 0);
        tcgen05_fence_after_thread_sync();
#pragma unroll
        for (int i = 0; i < parts::of_warp; i++) {
            float acc[parts::columns];
            uint32_t fp16[parts::columns / 2];
            const int column = half * T::tile_n + parts::column(row, i);
            if (parts::exists(row, i)) {
                load_acc(acc, tmem_column(row.acc, column));
            }
            if (half + 1 == halves && i + 1 == parts::of_warp) {
                leave_tmem();
            }
            if (!parts::exists(row, i)) {
                continue;
            }
#pragma unroll
            for (int j = 0; j < parts::columns; j += 2) {
                fp16[j / 2] = cvt_rn_f16x2_f32(acc[j], acc[j + 1]);
            }
            store_row<parts::columns>(row, column, fp16);
        }
    }
}

struct grouped_epilogue {
    template <class T>
    static __device__ __forceinline__ void run(shared_t<T> shared, struct tmem_addr acc,
                                               const struct tile_coord &coord,
                                               const struct blackwell_group &group) {
        struct output_row row = find_row(acc, coord, group);
        epilogue_plain<T>(shared, row);
    }
};

template <class T, class P>
static __global__ void __launch_bounds__(CTA_THREADS, 1) grouped_gemm_kernel(const __grid_constant__ P p) {
    if constexpr (T::turned) {
        run_tiles<T>(turned_tiles<T, P>{p});
    } else {
        const int32_t number = blockIdx.x / T::ctas;
        const struct blackwell_group &group = find_group(p, number);
        run_tile<T, grouped_epilogue>(find_grouped_tile<T>(group, number), group);
    }
}

} // namespace blackwell

#endif
