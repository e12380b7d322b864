/* From the accumulators in TMEM to rows of C: reduction across CTAs where K is split, SiLU, product, stores.
 *
 * Read blackwell_dual_gemm.cuh up to its main loop before. */
#ifndef BLACKWELL_EPILOGUE_CUH
#define BLACKWELL_EPILOGUE_CUH

#include "../gpu/silu.cuh"
#include "blackwell_tile.cuh"

namespace blackwell {

/* ---- rows of C ---- */

/* Warps that share a quarter of TMEM's lanes take columns in turn. */
#define COLUMN_GROUPS (EPILOGUE_WARPS / TMEM_QUARTERS)

/* A lane's row of C: where it goes, how many of the tile's columns exist, its accumulators; and which of the
 * warps of its quarter this is. */
struct output_row {
    uint16_t *to;
    int32_t columns;
    bool vectorized; /* 16 bytes at once: rows of C are that much aligned */
    bool sectors;    /* 32 bytes at once, likewise */
    struct tmem_addr acc;
    int group;
};

template <class P>
static __device__ __forceinline__ struct output_row find_row(struct tmem_addr acc,
                                                             const struct tile_coord &coord, const P &p) {
    uint32_t quarter = threadIdx.x / WARP_THREADS % TMEM_QUARTERS, lane = threadIdx.x % WARP_THREADS;
    int32_t row = coord.m + (int32_t)(quarter * WARP_THREADS + lane);
    return {p.c + ((int64_t)coord.batch * p.m + row) * p.n + coord.n,
            row < p.m ? p.n - coord.n : 0,
            p.n % VECTOR_HALVES == 0,
            p.n % SECTOR_HALVES == 0 && (uintptr_t)p.c % (SECTOR_HALVES * sizeof(uint16_t)) == 0,
            {acc.value + (quarter * WARP_THREADS << 16)},
            (int)(threadIdx.x / WARP_THREADS - OTHER_WARPS) / TMEM_QUARTERS};
}

/* ---- reduction across CTAs ---- */

/* Accumulators of a lane's row, from TMEM: not to be touched before await_loads. */
template <int columns>
static __device__ __forceinline__ void start_load(float (&acc)[columns], struct tmem_addr from) {
    if constexpr (columns == LOAD_COLUMNS) {
        tcgen05_ld_32x32b_x32(acc, from);
    } else {
        tcgen05_ld_32x32b_x16(acc, from);
    }
}

template <int columns> static __device__ __forceinline__ void await_loads(float (&acc)[columns]) {
    tcgen05_wait_ld();
#pragma unroll
    for (int i = 0; i < columns; i++) {
        keep_after_wait(acc[i]);
    }
}

template <int columns>
static __device__ __forceinline__ void load_acc(float (&acc)[columns], struct tmem_addr from) {
    start_load(acc, from);
    await_loads(acc);
}

/* Where four columns of a thread's row lie in a received part: neighbours in threads are so in memory. */
static __device__ __forceinline__ uint32_t received_offset(int column) {
    return (column / VECTOR_FLOATS * TILE_M + threadIdx.x % TILE_M) * (uint32_t)sizeof(float4);
}

/* This CTA's accumulators of `owner`'s columns of C, of both products, to one of the parts of its shared
 * memory. */
template <class T>
static __device__ __forceinline__ void send_acc(shared_t<T> shared, const struct output_row &row,
                                                const struct tile_coord &coord, int owner, int part) {
    const int part_bytes = sizeof(shared_storage<T>::received[0]);
    uint32_t to = mapa_shared_cluster(SHARED_MEMBER(shared, received) + part * part_bytes,
                                      (uint32_t)(owner * T::ctas + coord.rank));
#pragma unroll
    for (int product = 0; product < 2; product++) {
#pragma unroll
        for (int j = 0; j < T::output_n / REDUCTION_COLUMNS; j += COLUMN_GROUPS) {
            float acc[REDUCTION_COLUMNS];
            const int column = (j + row.group) * REDUCTION_COLUMNS;
            if (T::output_n / REDUCTION_COLUMNS % COLUMN_GROUPS != 0 && column >= T::output_n) {
                continue;
            }
            load_acc(acc, tmem_column(row.acc, product * T::up_column + owner * T::output_n + column));
#pragma unroll
            for (int i = 0; i < REDUCTION_COLUMNS; i += VECTOR_FLOATS) {
                st_shared_cluster_v4(to + received_offset(product * T::output_n + column + i), &acc[i]);
            }
        }
    }
}

/* This CTA's accumulators from `own` on, and what the others sent of them, which begins at `column`. */
template <class T>
static __device__ __forceinline__ void reduce_acc(float (&acc)[REDUCTION_COLUMNS], shared_t<T> shared,
                                                  struct tmem_addr own, int column) {
    const int part_bytes = sizeof(shared_storage<T>::received[0]);
    load_acc(acc, own);
#pragma unroll
    for (int part = 0; part < T::split_k - 1; part++) {
#pragma unroll
        for (int i = 0; i < REDUCTION_COLUMNS; i += VECTOR_FLOATS) {
            uint4 other =
                ld_shared_v4(SHARED_MEMBER(shared, received) + part * part_bytes + received_offset(column + i));
            acc[i] += __uint_as_float(other.x);
            acc[i + 1] += __uint_as_float(other.y);
            acc[i + 2] += __uint_as_float(other.z);
            acc[i + 3] += __uint_as_float(other.w);
        }
    }
}

/* ---- epilogue ---- */

/* Two gates to their SiLU. */
static __device__ __forceinline__ void silu_two(float *gate) {
    float numerator[2], denominator[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        silu_fraction(gate[i], numerator[i], denominator[i]);
    }
    divide_two(numerator, denominator, gate);
}

/* Of the gates from `first` on, before `end`. */
template <int first, int end, int columns>
static __device__ __forceinline__ void silu_columns(float (&gate)[columns]) {
#pragma unroll
    for (int i = first; i < end; i += 2) {
        silu_two(&gate[i]);
    }
}

template <int columns> static __device__ __forceinline__ void silu(float (&gate)[columns]) {
    silu_columns<0, columns>(gate);
}

/* Eight outputs of a row, of which as many exist as columns are remaining. */
static __device__ __forceinline__ void store_vector(uint16_t *to, const uint32_t *halves, int32_t remaining,
                                                    bool vectorized) {
    if (remaining <= 0) {
        return;
    }
    if (vectorized) {
        *(uint4 *)to = make_uint4(halves[0], halves[1], halves[2], halves[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < VECTOR_HALVES; i++) {
        if (i < remaining) {
            to[i] = (uint16_t)(halves[i / 2] >> i % 2 * 16);
        }
    }
}

/* Outputs of a row from `column` on, as many as the row has. */
template <int columns>
static __device__ __forceinline__ void store_row(const struct output_row &row, int column,
                                                 const uint32_t (&halves)[columns / 2]) {
#pragma unroll
    for (int i = 0; i < columns; i += SECTOR_HALVES) {
        uint16_t *to = row.to + column + i;
        const int32_t remaining = row.columns - column - i;
        if (row.sectors && remaining >= SECTOR_HALVES) {
            st_global_v8(to, &halves[i / 2]);
            continue;
        }
        store_vector(to, &halves[i / 2], remaining, row.vectorized);
        store_vector(to + VECTOR_HALVES, &halves[(i + VECTOR_HALVES) / 2], remaining - VECTOR_HALVES,
                     row.vectorized);
    }
}

/* Outputs of the columns from `column` on: the gates' SiLU times up, rounded once. */
template <int columns>
static __device__ __forceinline__ void store_products(const struct output_row &row, int column,
                                                      const float (&gate)[columns],
                                                      const float (&up)[columns]) {
    uint32_t halves[columns / 2];
#pragma unroll
    for (int i = 0; i < columns; i += 2) {
        halves[i / 2] = cvt_rn_f16x2_f32(gate[i] * up[i], gate[i + 1] * up[i + 1]);
    }
    store_row<columns>(row, column, halves);
}

/* The columns of a tile by `columns` at a time, as a warp of a quarter takes them: its part number i.  Parts
 * may lie behind the last column. */
template <int tile_columns> struct column_parts {
    static constexpr int columns =
        tile_columns % (LOAD_COLUMNS * COLUMN_GROUPS) == 0 ? LOAD_COLUMNS : LOAD_COLUMNS / 2;
    static constexpr int all = tile_columns / columns, of_warp = (all + COLUMN_GROUPS - 1) / COLUMN_GROUPS;
    static __device__ __forceinline__ int column(const struct output_row &row, int i) {
        return (row.group * of_warp + i) * columns;
    }
    static __device__ __forceinline__ bool exists(const struct output_row &row, int i) {
        return all % COLUMN_GROUPS == 0 || row.group * of_warp + i < all;
    }
};

/* Epilogue warp where one MMA takes both products: a lane is a row of C.  Waits for up_full; loads up beside
 * the SiLU of the gates, and arrives at the last meeting in the middle of it; multiplies, rounds, stores;
 * signals nothing: the kernel's end does. */
template <class T>
static __device__ __forceinline__ void epilogue_stacked(shared_t<T> shared, const struct output_row &row) {
    using parts = column_parts<T::tile_n>;
    float gate[parts::of_warp][parts::columns], up[parts::of_warp][parts::columns];
    wait(up_full_barrier<T>(shared), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int i = 0; i < parts::of_warp; i++) {
        if (parts::exists(row, i)) {
            start_load(gate[i], tmem_column(row.acc, parts::column(row, i)));
        }
    }
#pragma unroll
    for (int i = 0; i < parts::of_warp; i++) {
        await_loads(gate[i]);
    }
#pragma unroll
    for (int i = 0; i < parts::of_warp; i++) {
        if (parts::exists(row, i)) {
            start_load(up[i], tmem_column(row.acc, T::up_column + parts::column(row, i)));
        }
    }
#pragma unroll
    for (int i = 0; i < parts::of_warp; i++) {
        silu_columns<0, parts::columns / 2>(gate[i]);
    }
#pragma unroll
    for (int i = 0; i < parts::of_warp; i++) {
        await_loads(up[i]);
    }
    leave_tmem();
#pragma unroll
    for (int i = 0; i < parts::of_warp; i++) {
        silu_columns<parts::columns / 2, parts::columns>(gate[i]);
        if (parts::exists(row, i)) {
            store_products(row, parts::column(row, i), gate[i], up[i]);
        }
    }
}

/* Epilogue warp: a lane is a row of C.  Waits for gate_full, then for up_full; takes the SiLU of the gates into
 * registers, which overlaps the end of the second product; multiplies, rounds, stores; signals nothing: the
 * kernel's end does. */
template <class T>
static __device__ __forceinline__ void epilogue(shared_t<T> shared, const struct output_row &row) {
    using parts = column_parts<T::tile_n>;
    static_assert(parts::all % COLUMN_GROUPS == 0, "each warp has as many parts");
    float gate[parts::of_warp][parts::columns];
    wait(gate_full_barrier<T>(shared), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int i = 0; i < parts::of_warp; i++) {
        load_acc(gate[i], tmem_column(row.acc, parts::column(row, i)));
        silu(gate[i]);
    }
    wait(up_full_barrier<T>(shared), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int i = 0; i < parts::of_warp; i++) {
        float up[parts::columns];
        const int column = parts::column(row, i);
        load_acc(up, tmem_column(row.acc, T::up_column + column));
        if (i + 1 == parts::of_warp) {
            leave_tmem();
        }
        store_products(row, column, gate[i], up);
    }
}

/* Epilogue warp where T::split_k CTAs or pairs share a tile's K.  Waits for both products of its share of K,
 * and for the cluster, which is past its last reads of all stages; sends the accumulators of the others'
 * columns over these, signals and waits for the cluster, adds what came for its own columns, and finishes them.
 */
template <class T>
static __device__ __forceinline__ void epilogue_split_k(shared_t<T> shared, const struct output_row &row,
                                                        const struct tile_coord &coord) {
    wait(up_full_barrier<T>(shared), 0);
    tcgen05_fence_after_thread_sync();
    sync_ctas();
#pragma unroll 1
    for (int part = 0; part < T::split_k - 1; part++) {
        send_acc<T>(shared, row, coord, (coord.split + 1 + part) % T::split_k, part);
    }
    sync_ctas();
    const int first = coord.split * T::output_n;
#pragma unroll
    for (int i = 0; i < T::output_n / REDUCTION_COLUMNS; i += COLUMN_GROUPS) {
        float gate[REDUCTION_COLUMNS], up[REDUCTION_COLUMNS];
        const int column = (i + row.group) * REDUCTION_COLUMNS;
        if (T::output_n / REDUCTION_COLUMNS % COLUMN_GROUPS == 0 || column < T::output_n) {
            reduce_acc<T>(gate, shared, tmem_column(row.acc, first + column), column);
            reduce_acc<T>(up, shared, tmem_column(row.acc, T::up_column + first + column),
                          T::output_n + column);
            silu(gate);
            store_products(row, first + column, gate, up);
        }
    }
    leave_tmem();
}

/* Epilogue warp of the grouped GEMM: as epilogue, of one product, whose columns are those of both accumulators.
 */
template <class T>
static __device__ __forceinline__ void epilogue_plain(shared_t<T> shared, const struct output_row &row) {
    constexpr int halves = T::stacked ? 1 : 2;
    using parts = column_parts<2 * T::tile_n / halves>;
    static_assert(T::up_column == T::tile_n, "columns of C are columns of TMEM");
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

} // namespace blackwell

#endif
