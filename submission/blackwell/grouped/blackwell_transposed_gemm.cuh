/* Transposed tiles, which compute c^T = b a^T (blackwell_grouped_config.h): the grouped GEMM's, and what the
 * extended GEMM's for few rows share with them (../extended/blackwell_few_rows_gemm.cuh).
 *
 * Read blackwell_grouped_gemm.cuh first.  A pair of CTAs takes tile after tile; or the pairs of a cluster share
 * one tile's K, each with stages of its own, and exchange sums at the end:
 *
 *   every pair, for its share of K                       pair s of the cluster
 *   ------------------------------                       ---------------------
 *   load, multiply --> sums of all columns --DSMEM--> the other pairs' sums of columns 16 s, 16 (s + pairs) ...
 *                                      '--own sums--> added in a fixed order --> C
 *
 * What other pairs send has room of its own behind the ring, so that no pair waits before it sends. */
#ifndef BLACKWELL_TRANSPOSED_GEMM_CUH
#define BLACKWELL_TRANSPOSED_GEMM_CUH

#include "blackwell_grouped_gemm.cuh"

namespace blackwell {

/* k_shares: pairs of CTAs that share a tile's K, and then exchange sums.  gate_and_up: the first CTA of a pair
 * has rows of gate, the second the same rows of up, so that both have sums of the same columns of C. */
template <int tile_n, int stages, int ctas, int tail, int k_shares_, bool gate_and_up_ = false>
struct transposed_tile : grouped_tile<tile_n, stages, ctas, tail, 1> {
    static constexpr bool transposed = true, gate_and_up = gate_and_up_;
    static constexpr int k_shares = k_shares_, cluster = ctas * k_shares;
    static constexpr int sharers = gate_and_up ? cluster : k_shares; /* CTAs with sums of the same outputs */
    static constexpr int scales_read_arrivals = (sharers > 1 ? sharers - 1 : ctas) * EPILOGUE_WARPS;
    static_assert(ctas == 2 && JOINT_MMA(tail, 1), "one MMA of a pair computes the tile");
    static_assert(cluster <= MAX_CLUSTER_CTAS, "a cluster has at most MAX_CLUSTER_CTAS CTAs");
};

/* In a transposed tile coord.m counts rows of B, which are columns of C, and coord.n rows of A and C. */
template <class T, class P>
static __device__ __forceinline__ struct tile_coord find_transposed_tile(const P &group, int32_t number) {
    struct tile_coord coord = find_grouped_tile<T>(group, number);
    const int32_t tile = number / group.tiles_m;
    coord.m = (T::gate_and_up ? tile : tile * T::ctas + coord.rank) * TILE_M;
    coord.n = number % group.tiles_m * T::columns;
    coord.columns = group.columns;
    if constexpr (T::k_shares > 1) {
        const int32_t stages_k = (group.steps_k + STAGE_STEPS - 1) / STAGE_STEPS;
        coord.split = blockIdx.x % T::cluster / T::ctas;
        coord.first_stage = stages_k * coord.split / T::k_shares;
        coord.steps = min(stages_k * (coord.split + 1) / T::k_shares * STAGE_STEPS, group.steps_k) -
                      coord.first_stage * STAGE_STEPS;
    }
    return coord;
}

/* An epilogue warp's accumulators, and its number among those that read the same ones. */
struct warp_place {
    struct tmem_addr acc;
    int group;
};

static __device__ __forceinline__ struct warp_place find_warp(struct tmem_addr acc) {
    const uint32_t warp = threadIdx.x / WARP_THREADS;
    return {{acc.value + (warp % TMEM_QUARTERS * WARP_THREADS << 16)},
            (int)(warp - OTHER_WARPS) / TMEM_QUARTERS};
}

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

/* Where a lane of an epilogue warp stores a transposed tile's outputs: its column of C, from the tile's first
 * row on. */
struct output_column {
    uint16_t *to;
    int32_t rows; /* of the tile that exist; 0 past the last column */
    int32_t row_step;
    bool even; /* rows of C start at whole words */
};

static __device__ __forceinline__ struct output_column find_column(const struct tile_coord &coord,
                                                                   const struct blackwell_group &group) {
    const int32_t of_lane = coord.m + (int32_t)threadIdx.x % TILE_M;
    return {group.c + (int64_t)coord.n * group.n + of_lane, of_lane < group.n ? group.m - coord.n : 0, group.n,
            group.n % 2 == 0};
}

/* Stores TRANSPOSED_COLUMNS rows of C, from `row` of the tile on. */
static __device__ __forceinline__ void store_rows(const struct output_column &column, int32_t row,
                                                  const float (&sums)[TRANSPOSED_COLUMNS]) {
    if (column.even) {
        row += threadIdx.x % 2;
        uint16_t *to = column.to + (int64_t)row * column.row_step;
#pragma unroll
        for (int i = 0; i < TRANSPOSED_COLUMNS; i += 2, to += 2 * (int64_t)column.row_step) {
            store_two_rows(to, cvt_rn_f16x2_f32(sums[i], sums[i + 1]), row + i < column.rows);
        }
        return;
    }
    uint16_t *to = column.to + (int64_t)row * column.row_step;
#pragma unroll
    for (int i = 0; i < TRANSPOSED_COLUMNS; i++, to += column.row_step) {
        if (row + i < column.rows) {
            *to = (uint16_t)cvt_rn_f16x2_f32(sums[i], 0.0f);
        }
    }
}

/* Epilogue warp of a transposed tile; a lane has a column of C. Waits for `complete`; loads the next
 * accumulators while it stores the ones before. */
template <class T>
static __device__ __forceinline__ void epilogue_transposed(struct tmem_addr acc, const struct tile_coord &coord,
                                                           const struct blackwell_group &group,
                                                           struct mbarrier complete, uint32_t parity) {
    constexpr int step = COLUMN_GROUPS * TRANSPOSED_COLUMNS;
    const struct warp_place place = find_warp(acc);
    const struct output_column column = find_column(coord, group);
    wait(complete, parity);
    tcgen05_fence_after_thread_sync();
#pragma unroll 1
    for (int32_t first = place.group * TRANSPOSED_COLUMNS; first < coord.columns; first += 2 * step) {
        float sums[TRANSPOSED_COLUMNS], next[TRANSPOSED_COLUMNS];
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

/* Two sets of accumulators, used in turn: their barriers, and the phase of tile number `pass`.  A transposed
 * tile uses neither gate_full nor scales_read for what their names say. */
template <class T>
static __device__ __forceinline__ struct mbarrier complete_barrier(shared_t<T> shared, int32_t pass) {
    return pass % 2 == 0 ? up_full_barrier<T>(shared) : gate_full_barrier<T>(shared);
}

/* Complete when no warp of the pair reads the tile's accumulators any more; the first CTA's is used. */
template <class T>
static __device__ __forceinline__ struct mbarrier drained_barrier(shared_t<T> shared, int32_t pass) {
    return scales_read_barrier<T>(shared, pass % 2);
}

static __device__ __forceinline__ uint32_t phase_of(int32_t pass) {
    return pass / 2 % 2;
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
 * first; every second pass takes it backwards, so that each pair gets about as much. */
template <class T, class P> struct transposed_tiles {
    const P &p;

    __device__ __forceinline__ int32_t rank(void) const {
        return blockIdx.x % T::ctas;
    }

    __device__ __forceinline__ void prefetch_maps(void) const {
        T::prefetch_maps(find_group(p, number(0)).group);
    }

    __device__ __forceinline__ void read_parameters(void) const {
        trap_if_negative(p.tiles);
    }

    /* The number of this pair's tile in a pass; p.tiles or more past the last one. */
    __device__ __forceinline__ int32_t number(int32_t pass) const {
        const int32_t pairs = gridDim.x / T::ctas, pair = blockIdx.x / T::ctas;
        return pass * pairs + (pass % 2 == 0 ? pair : pairs - 1 - pair);
    }

    /* Calls work(coordinates, group, pass, whether another tile follows) for each tile. */
    template <class Work> __device__ __forceinline__ void for_each(Work work) const {
#pragma unroll 1
        for (int32_t pass = 0; number(pass) < p.tiles; pass++) {
            const struct tile_of_group tile = find_group(p, number(pass));
            work(find_transposed_tile<T>(tile.group, tile.number), tile.group, pass,
                 number(pass + 1) < p.tiles);
        }
    }

    __device__ __forceinline__ void load_tiles(shared_t<T> shared) const {
        struct ring ring = ring_to_use();
        int32_t filled = 0;
        for_each([&](const struct tile_coord &coord, const struct blackwell_group &group, int32_t, bool) {
            load<T>(shared, coord, group, ring, filled);
            filled += (coord.steps + STAGE_STEPS - 1) / STAGE_STEPS;
        });
    }

    /* Waits until a tile's accumulators have been read. */
    static __device__ __forceinline__ void await_drained(shared_t<T> shared, int32_t pass) {
        while (!mbarrier_try_wait_parity_cluster(drained_barrier<T>(shared, pass), phase_of(pass))) {
        }
        tcgen05_fence_after_thread_sync();
    }

    __device__ __forceinline__ void multiply_tiles(shared_t<T> shared, struct tmem_addr tmem) const {
        struct ring ring = ring_to_use();
        struct acc_columns before = {0, 0};
        for_each([&](const struct tile_coord &coord, const struct blackwell_group &, int32_t pass, bool more) {
            const struct acc_columns acc = next_columns<T>(before, coord.columns);
            if (pass >= 2) {
                await_drained(shared, pass - 2);
            }
            if (pass >= 1 && acc.first < before.end && before.first < acc.end) {
                await_drained(shared, pass - 1);
            }
            multiply<T>(shared, tmem, acc.first, coord, ring, more, complete_barrier<T>(shared, pass));
            before = acc;
        });
    }

    __device__ __forceinline__ void store_tiles(shared_t<T> shared, struct tmem_addr tmem) const {
        struct acc_columns before = {0, 0};
        for_each([&](const struct tile_coord &coord, const struct blackwell_group &group, int32_t pass,
                     bool more) {
            const struct acc_columns acc = next_columns<T>(before, coord.columns);
            epilogue_transposed<T>(tmem_column(tmem, acc.first), coord, group,
                                   complete_barrier<T>(shared, pass), phase_of(pass));
            if (more) {
                tcgen05_fence_before_thread_sync();
                __syncwarp();
                if (threadIdx.x % WARP_THREADS == 0) {
                    mbarrier_arrive_cluster(mapa_shared_cluster(drained_barrier<T>(shared, pass).address, 0));
                }
            }
            before = acc;
        });
        leave_tmem();
    }
};

/* ---- CTAs that share outputs' sums ---- */

/* Complete when all warps of the others have sent their sums. */
template <class T> static __device__ __forceinline__ struct mbarrier received_barrier(shared_t<T> shared) {
    return scales_read_barrier<T>(shared, 0);
}

/* The number of this CTA among T::sharers, and the rank in the cluster of number `owner`. */
template <class T> static __device__ __forceinline__ int sharer_of(const struct tile_coord &coord) {
    return T::gate_and_up ? coord.split * T::ctas + coord.rank : coord.split;
}

template <class T>
static __device__ __forceinline__ uint32_t rank_of_sharer(const struct tile_coord &coord, int owner) {
    return (uint32_t)(T::gate_and_up ? owner : owner * T::ctas + coord.rank);
}

/* The first sums that number `from` of the others sends to a CTA, by a thread's row of the MMA. */
template <class T> static __device__ __forceinline__ uint32_t received_at(shared_t<T> shared, int from) {
    constexpr uint32_t ring =
        (sizeof(shared_storage<T>) + sizeof(float4) - 1) / sizeof(float4) * sizeof(float4);
    constexpr uint32_t bytes = T::columns / T::sharers * TILE_M * sizeof(float);
    static_assert(ring + (T::sharers - 1) * bytes <=
                      sizeof(shared_storage<T>) + RECEIVED_BYTES(T::tile_n, T::sharers),
                  "the host asks for as many bytes");
    static_assert(sizeof(shared_storage<T>) + RECEIVED_BYTES(T::tile_n, T::sharers) + SWIZZLE_ATOM_BYTES <=
                      MAX_SHARED_BYTES,
                  "a CTA has at most MAX_SHARED_BYTES of shared memory");
    return shared.value + ring + from * bytes + threadIdx.x % TILE_M * (uint32_t)sizeof(float4);
}

/* Loads sums from TMEM; a pair without a share of K has none, which are zeros. */
static __device__ __forceinline__ void load_sums(float (&sums)[TRANSPOSED_COLUMNS], struct tmem_addr from,
                                                 const struct tile_coord &coord) {
    if (coord.steps > 0) {
        load_acc(sums, from);
        return;
    }
#pragma unroll
    for (int i = 0; i < TRANSPOSED_COLUMNS; i++) {
        sums[i] = 0.0f;
    }
}

/* A warp's parts of TRANSPOSED_COLUMNS columns among those that number `owner` stores. */
#define FOR_EACH_PART(part, at, owner, group, columns)                                                         \
    for (int32_t part = (owner) + (group) * T::sharers,                                                        \
                 at = (group) * TRANSPOSED_COLUMNS * TILE_M * sizeof(float);                                   \
         part * TRANSPOSED_COLUMNS < (columns); part += COLUMN_GROUPS * T::sharers,                            \
                 at += COLUMN_GROUPS * TRANSPOSED_COLUMNS * TILE_M * (int)sizeof(float))

/* Sends this CTA's sums of the columns of `owner` to the CTA there that stores them. */
template <class T>
static __device__ __forceinline__ void send_sums(shared_t<T> shared, const struct warp_place &place,
                                                 const struct tile_coord &coord, int owner) {
    const int from = (sharer_of<T>(coord) - owner - 1 + T::sharers) % T::sharers;
    const uint32_t rank = rank_of_sharer<T>(coord, owner);
    const uint32_t to = mapa_shared_cluster(received_at<T>(shared, from), rank);
#pragma unroll 1
    FOR_EACH_PART(part, at, owner, place.group, coord.columns) {
        float sums[TRANSPOSED_COLUMNS];
        load_sums(sums, tmem_column(place.acc, part * TRANSPOSED_COLUMNS), coord);
#pragma unroll
        for (int i = 0; i < TRANSPOSED_COLUMNS; i += VECTOR_FLOATS) {
            st_shared_cluster_v4(to + at + i * TILE_M * (int)sizeof(float), &sums[i]);
        }
    }
    __syncwarp();
    if (threadIdx.x % WARP_THREADS == 0) {
        mbarrier_arrive_cluster(mapa_shared_cluster(received_barrier<T>(shared).address, rank));
    }
}

/* Adds what number `from` of the others has sent of a part that starts `at` bytes behind the first. */
template <class T>
static __device__ __forceinline__ void add_received(float (&sums)[TRANSPOSED_COLUMNS], shared_t<T> shared,
                                                    int from, int32_t at) {
#pragma unroll
    for (int i = 0; i < TRANSPOSED_COLUMNS; i += VECTOR_FLOATS) {
        const uint4 other = ld_shared_v4(received_at<T>(shared, from) + at + i * TILE_M * (int)sizeof(float));
        sums[i] += __uint_as_float(other.x);
        sums[i + 1] += __uint_as_float(other.y);
        sums[i + 2] += __uint_as_float(other.z);
        sums[i + 3] += __uint_as_float(other.w);
    }
}

/* Epilogue warp. Waits for the products of its pair's share of K; sends sums of the other CTAs' columns; waits
 * for what they send; adds its own columns, and calls store(first column, sums, sums of the pair's other
 * operand if the tile has gate and up).  The others are numbered from this one on, so that every second one has
 * the other operand. */
template <class T, class Store>
static __device__ __forceinline__ void epilogue_shared_k(shared_t<T> shared, const struct warp_place &place,
                                                         const struct tile_coord &coord, Store store) {
    const int own = sharer_of<T>(coord);
    wait(up_full_barrier<T>(shared), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll 1
    for (int i = 1; i < T::sharers; i++) {
        send_sums<T>(shared, place, coord, (own + i) % T::sharers);
    }
    while (T::sharers > 1 && !mbarrier_try_wait_parity_cluster(received_barrier<T>(shared), 0)) {
    }
#pragma unroll 1
    FOR_EACH_PART(part, at, own, place.group, coord.columns) {
        float sums[TRANSPOSED_COLUMNS], others[TRANSPOSED_COLUMNS] = {0};
        load_sums(sums, tmem_column(place.acc, part * TRANSPOSED_COLUMNS), coord);
#pragma unroll
        for (int from = 0; from < T::sharers - 1; from++) {
            add_received<T>(T::gate_and_up && from % T::ctas == 0 ? others : sums, shared, from, at);
        }
        store(part * TRANSPOSED_COLUMNS, sums, others);
    }
    leave_tmem();
}

struct shared_k_epilogue {
    template <class T>
    static __device__ __forceinline__ void run(shared_t<T> shared, struct tmem_addr acc,
                                               const struct tile_coord &coord,
                                               const struct blackwell_group &group) {
        const struct output_column column = find_column(coord, group);
        epilogue_shared_k<T>(shared, find_warp(acc), coord,
                             [&](int32_t row, const float (&sums)[TRANSPOSED_COLUMNS],
                                 const float (&)[TRANSPOSED_COLUMNS]) { store_rows(column, row, sums); });
    }
};

template <class T, class P>
static __global__ void __launch_bounds__(CTA_THREADS, 1) transposed_gemm_kernel(const __grid_constant__ P p) {
    if constexpr (T::k_shares == 1) {
        run_tiles<T>(transposed_tiles<T, P>{p});
    } else {
        const struct tile_of_group tile = find_group(p, blockIdx.x / T::cluster);
        run_tile<T, shared_k_epilogue>(find_transposed_tile<T>(tile.group, tile.number), tile.group);
    }
}

} // namespace blackwell

#endif
