/* The epilogue warps where CTAs share a tile's K: each adds the others' sums of its features to its own. */
#ifndef BLACKWELL_EXCHANGE_CUH
#define BLACKWELL_EXCHANGE_CUH

#include "epilogue.cuh"

#define EXCHANGE_COLUMNS 16 /* of sums at once */
#define VECTOR_FLOATS    4

/* Where four columns of a thread's row lie while they are exchanged: neighbours in threads are so in memory. */
static __device__ __forceinline__ uint32_t exchange_at(int column) {
    return (column / VECTOR_FLOATS * TILE_TOKENS + threadIdx.x % TILE_TOKENS) * (uint32_t)sizeof(float4);
}

/* This CTA's sums of `owner`'s features, of both products, to one of the parts of its shared memory. */
template <class T>
static __device__ __forceinline__ void send_sums(const struct shared_map &shared, const struct row &row,
                                                 const struct place &place, int owner, int part) {
    uint32_t to =
        mapa_shared_cluster(shared.base + part * T::sums_bytes, (uint32_t)(owner * T::ctas + place.rank));
#pragma unroll
    for (int product = 0; product < 2; product++) {
#pragma unroll
        for (int column = 0; column < T::output_features; column += EXCHANGE_COLUMNS) {
            float sums[EXCHANGE_COLUMNS];
            load_sums(sums, tensor_column(row.sums, product * T::up_at + owner * T::output_features + column));
#pragma unroll
            for (int i = 0; i < EXCHANGE_COLUMNS; i += VECTOR_FLOATS) {
                st_shared_cluster_v4(to + exchange_at(product * T::output_features + column + i), &sums[i]);
            }
        }
    }
}

/* This CTA's sums from `sums` on, and what the others sent of them, which begins at `column`. */
template <class T>
static __device__ __forceinline__ void gather_sums(float (&all)[EXCHANGE_COLUMNS],
                                                   const struct shared_map &shared, struct tensor_address sums,
                                                   int column) {
    load_sums(all, sums);
#pragma unroll
    for (int part = 0; part < T::splits - 1; part++) {
#pragma unroll
        for (int i = 0; i < EXCHANGE_COLUMNS; i += VECTOR_FLOATS) {
            uint4 other = ld_shared_v4(shared.base + part * T::sums_bytes + exchange_at(column + i));
            all[i] += __uint_as_float(other.x);
            all[i + 1] += __uint_as_float(other.y);
            all[i + 2] += __uint_as_float(other.z);
            all[i + 3] += __uint_as_float(other.w);
        }
    }
}

/* Epilogue warp where T::splits CTAs or pairs share a tile's K.  Waits for both products of its share of K and
 * for the cluster, which is past its last reads of all stages; sends the sums of the others' features over
 * these; waits for the cluster; adds what came for its own features, and finishes them. */
template <class T>
static __device__ __forceinline__ void finish_split(const struct shared_map &shared, const struct row &row,
                                                    const struct place &place) {
    static_assert(T::output_features % EXCHANGE_COLUMNS == 0, "whole loads of sums");
    wait(shared.up_full<T>(), 0);
    tcgen05_fence_after_thread_sync();
    sync_ctas<T>();
#pragma unroll 1
    for (int part = 0; part < T::splits - 1; part++) {
        send_sums<T>(shared, row, place, (place.split + 1 + part) % T::splits, part);
    }
    sync_ctas<T>();
    const int first = place.split * T::output_features;
#pragma unroll
    for (int column = 0; column < T::output_features; column += EXCHANGE_COLUMNS) {
        float gate[EXCHANGE_COLUMNS], up[EXCHANGE_COLUMNS];
        gather_sums<T>(gate, shared, tensor_column(row.sums, first + column), column);
        gather_sums<T>(up, shared, tensor_column(row.sums, T::up_at + first + column),
                       T::output_features + column);
        silu_of(gate);
        store_products(row, first + column, gate, up);
    }
}

#endif
