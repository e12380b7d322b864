/* The epilogue, from accumulators in TMEM to rows of C: reduction across CTAs with split K, SiLU, product,
 * stores.
 *
 * Read the first comment of blackwell_dual_gemm.cuh before. */
#ifndef BLACKWELL_EPILOGUE_CUH
#define BLACKWELL_EPILOGUE_CUH

#include "../gpu/device/silu.cuh"
#include "blackwell_tile.cuh"

namespace blackwell {

/* ---- rows of C ---- */

/* A lane's row of C: its address, how many of the tile's columns exist, its accumulators; and the number of the
 * lane's warp among those of its quarter. */
struct output_row {
    uint16_t *to;
    int32_t columns;
    bool vectorized; /* rows of C are aligned to 16 bytes: 16-byte stores */
    bool sectors;    /* the same for 32 bytes */
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

/* Starts loading accumulators of a lane's row from TMEM: they may be read after await_loads. */
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

/* Offset in bytes of four columns of a thread's row in a received part: neighbouring threads have
 * neighbouring addresses. */
static __device__ __forceinline__ uint32_t received_offset(int column) {
    return (column / VECTOR_FLOATS * TILE_M + threadIdx.x % TILE_M) * (uint32_t)sizeof(float4);
}

/* Sends this CTA's accumulators of `owner`'s columns of C, of both products, to one of the parts in `owner`'s
 * shared memory. */
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

/* Adds to this CTA's accumulators from `own` on what the other CTAs sent, which starts at `column`. */
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

/* SiLU of the gates first .. end - 1. */
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

/* Stores eight outputs of a row, of which `remaining` exist. */
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

/* Stores outputs of a row from `column` on, those that exist. */
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

/* Stores SiLU(gate) times up, rounded once, from `column` on; `gate` already holds the SiLU. */
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

/* The columns of a tile in parts of `columns`, shared by the warps of a quarter: `column` is where this warp's
 * part number i starts.  A part may lie past the last column. */
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

/* Epilogue warp if one MMA computes both products; a lane has a row of C.  Waits for up_full; loads up while it
 * computes the SiLU of the first half of the gates, and arrives at the kernel's last barrier before the second
 * half; multiplies, rounds, stores. */
template <class T>
static __device__ __forceinline__ void epilogue_joint(shared_t<T> shared, const struct output_row &row) {
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

/* Epilogue warp; a lane has a row of C.  Waits for gate_full; computes the SiLU of the gates in registers,
 * which overlaps the end of the second product; waits for up_full; multiplies, rounds, stores. */
template <class T>
static __device__ __forceinline__ void epilogue(shared_t<T> shared, const struct output_row &row) {
    using parts = column_parts<T::tile_n>;
    static_assert(parts::all % COLUMN_GROUPS == 0, "the column groups share the parts evenly");
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

/* Epilogue warp if each MMA takes half of the columns, of which the warps of a quarter have a CTA's rows of B
 * each. Waits for gate_full, then for up_full; each time loads gate and up, multiplies, rounds, stores. */
template <class T>
static __device__ __forceinline__ void epilogue_halves(shared_t<T> shared, const struct output_row &row) {
    constexpr int columns = T::cta_n / 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const struct tmem_addr acc = tmem_column(row.acc, half * T::tile_n + row.group * T::cta_n);
        float gate[columns], up[columns];
        wait(half == 0 ? gate_full_barrier<T>(shared) : up_full_barrier<T>(shared), 0);
        tcgen05_fence_after_thread_sync();
        load_acc(gate, acc);
        start_load(up, tmem_column(acc, columns));
        silu_columns<0, columns / 2>(gate);
        await_loads(up);
        if (half == 1) {
            leave_tmem();
        }
        silu_columns<columns / 2, columns>(gate);
        store_products(row, row.group * T::cta_n + half * columns, gate, up);
    }
}

/* Epilogue warp if T::split_k CTAs or pairs share a tile's K.  Waits for both products of its share of K, and
 * for the cluster, which then reads no stage any more; sends the accumulators of the other CTAs' columns to
 * their stages; synchronizes the cluster; adds what came for its own columns, and stores these. */
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

/* The dual GEMM's epilogue, by the tile. */
struct dual_epilogue {
    template <class T>
    static __device__ __forceinline__ void run(shared_t<T> shared, struct tmem_addr acc,
                                               const struct tile_coord &coord,
                                               const struct blackwell_dual_gemm_params &p) {
        struct output_row row = find_row(acc, coord, p);
        if constexpr (T::stored) {
            epilogue_halves<T>(shared, row);
        } else if constexpr (T::joint_mma) {
            epilogue_joint<T>(shared, row);
        } else if constexpr (T::split_k == 1) {
            epilogue<T>(shared, row);
        } else {
            epilogue_split_k<T>(shared, row, coord);
        }
    }
};

} // namespace blackwell

#endif
