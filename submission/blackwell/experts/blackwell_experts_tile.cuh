/* The tiles of the products of experts: where their rows of B come from, and whose accumulators a lane has.
 *
 * Read the first comment of blackwell_experts_gemm.cuh before.  A warp reads the accumulators of 32 of a CTA's
 * 128 rows of B.  These rows are
 *
 *   of a plain product           32 columns
 *   of gate and up by turns of 8 the tensor's own order: gate of 8 columns, up of these, gate of the next 8, up
 *   of any other gate and up     gate of 16 columns, up of these
 *
 * so that gate and up of an output are in the same warp, 8 or 16 lanes apart.  In the last case the first CTA
 * of a pair has the first 16 of every 32 columns and the second CTA the others: an entry of a blocked scale
 * tile holds rows that lie 32 apart, so a CTA copies whole entries. */
#ifndef BLACKWELL_EXPERTS_TILE_CUH
#define BLACKWELL_EXPERTS_TILE_CUH

#include "../../gpu/experts/gpu_experts.cuh"
#include "../blackwell_tile.cuh"
#include "blackwell_experts_kernels.h"

namespace blackwell {

template <class T> struct experts_storage {
    struct shared_storage<T> ring;
    struct expert_table table;
    static_assert(sizeof(struct shared_storage<T>) % sizeof(int32_t) == 0 &&
                      sizeof(struct shared_storage<T>) + sizeof(struct expert_table) + SWIZZLE_ATOM_BYTES <=
                          MAX_SHARED_BYTES,
                  "a CTA has at most MAX_SHARED_BYTES of shared memory");
    static_assert(sizeof(struct expert_table) == 2 * CUSTOM_KERNEL_MAX_EXPERTS * 4,
                  "the table has the bytes that the host asks for");
};

/* A pair's tile. */
struct experts_coord {
    struct expert_tile rows;
    int32_t column;  /* the first of C */
    int32_t columns; /* of the MMA: rows of A, in whole granules */
};

static __device__ __forceinline__ bool has_adjacent_rows(const struct blackwell_experts_params &p) {
    return blackwell_experts_adjacent(p.epilogue.plain, p.interleave);
}

template <class T>
static __device__ __forceinline__ struct experts_coord
find_tile_of_experts(const struct blackwell_experts_params &p, const struct expert_table *table,
                     int32_t number) {
    struct experts_coord coord;
    coord.rows = find_expert_tile(p.tokens, table, number / p.tiles_n);
    coord.column = number % p.tiles_n * (p.epilogue.plain ? 2 * TILE_M : TILE_M);
    const int32_t granules =
        (coord.rows.row_end - coord.rows.first_row + EXPERTS_ROW_GRANULE - 1) / EXPERTS_ROW_GRANULE;
    coord.columns = min(granules * EXPERTS_ROW_GRANULE, T::columns);
    return coord;
}

/* The rank of this CTA in its pair. */
static __device__ __forceinline__ int32_t pair_rank(void) {
    return blockIdx.x % 2;
}

/* The tiles of a pair: calls work(coordinates, number of the pass, whether another tile follows) for each. */
template <class T, class Work>
static __device__ __forceinline__ void for_each_tile(const struct blackwell_experts_params &p,
                                                     const struct expert_table *table, Work work) {
    const int32_t tiles = expert_tiles(p.tokens, table) * p.tiles_n, pairs = gridDim.x / 2;
    int32_t pass = 0;
#pragma unroll 1
    for (int32_t number = blockIdx.x / 2; number < tiles; number += pairs, pass++) {
        work(find_tile_of_experts<T>(p, table, number), pass, number + pairs < tiles);
    }
}

/* The first row, in an expert's tensor, of a CTA's adjacent rows. */
static __device__ __forceinline__ int32_t first_adjacent_row(const struct blackwell_experts_params &p,
                                                             const struct experts_coord &coord) {
    return (p.epilogue.plain ? 1 : 2) * coord.column + pair_rank() * TILE_M;
}

/* The first column of quarter number `quarter` of a CTA's rows of B. */
static __device__ __forceinline__ int32_t quarter_column(const struct blackwell_experts_params &p,
                                                         const struct experts_coord &coord, int quarter) {
    if (p.epilogue.plain) {
        return coord.column + pair_rank() * TILE_M + quarter * EXPERTS_QUARTER;
    }
    return coord.column + (has_adjacent_rows(p) ? pair_rank() * (TILE_M / 2) + quarter * EXPERTS_PIECE
                                                : quarter * EXPERTS_QUARTER + pair_rank() * EXPERTS_PIECE);
}

/* The row of gate or of up of a column, if rows are not adjacent. */
static __device__ __forceinline__ int32_t row_of_column(const struct blackwell_experts_params &p,
                                                        int32_t column, int32_t up) {
    return p.interleave != 0 ? interleaved_row(p.interleave, column, up) : column;
}

} // namespace blackwell

#endif
