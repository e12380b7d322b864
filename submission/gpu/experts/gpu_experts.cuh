/* The list of tiles of experts, which every CTA makes for itself from the counts: experts without rows have no
 * tile. */
#ifndef GPU_EXPERTS_CUH
#define GPU_EXPERTS_CUH

#include "../../core/expert_rows.h"
#include "../gpu_limits.h"
#include "../instructions/ptx.cuh"
#include "gpu_experts.h"

/* In shared memory. */
struct expert_table {
    int32_t row_end[CUSTOM_KERNEL_MAX_EXPERTS];  /* the row after each expert's last one */
    int32_t tile_end[CUSTOM_KERNEL_MAX_EXPERTS]; /* tiles along the rows of all experts up to this one */
};

static __device__ __forceinline__ int32_t tiles_of_rows(int32_t rows, int32_t tile_m) {
    return rows / tile_m + (rows % tile_m != 0);
}

static __device__ __forceinline__ int32_t first_row_of(const struct expert_tokens &tokens,
                                                       const struct expert_table *table, int32_t expert) {
    if (tokens.kind == CUSTOM_KERNEL_TOKENS_PADDED) {
        return expert * tokens.rows;
    }
    return expert == 0 ? 0 : table->row_end[expert - 1];
}

/* One warp; the kernel before has to be waited for if it writes the counts.  A lane takes a run of experts;
 * runs are joined by a scan over the lanes, which gives what one loop over all experts would.  Copies bring all
 * counts at the same time, where loads would wait for each other. */
static __device__ __forceinline__ void make_expert_table(const struct expert_tokens &tokens,
                                                         struct expert_table *table) {
    const int lane = threadIdx.x % WARP_THREADS;
    const bool padded = tokens.kind == CUSTOM_KERNEL_TOKENS_PADDED;
    for (int32_t i = lane; i < tokens.experts; i += WARP_THREADS) {
        cp_async_ca_4(cvta_to_shared(&table->row_end[i]), &tokens.counts[i]);
    }
    cp_async_commit_group();
    cp_async_wait_group<0>();
    __syncwarp();
    const int32_t run = (tokens.experts + WARP_THREADS - 1) / WARP_THREADS,
                  first = min(lane * run, tokens.experts), end = min(first + run, tokens.experts);
    int32_t rows = 0;
    for (int32_t i = first; i < end && !padded; i++) {
        rows = joined_end(tokens.kind, rows, clamped_count(table->row_end[i], tokens.rows), tokens.rows);
    }
    for (int distance = 1; distance < WARP_THREADS; distance *= 2) {
        const int32_t other = __shfl_up_sync(~0u, rows, distance);
        rows = lane >= distance ? joined_end(tokens.kind, other, rows, tokens.rows) : rows;
    }
    rows = __shfl_up_sync(~0u, rows, 1);
    int32_t row_end = lane == 0 ? 0 : rows, tiles = 0;
    for (int32_t i = first; i < end; i++) {
        const int32_t begin = padded ? i * tokens.rows : row_end,
                      value = clamped_count(table->row_end[i], tokens.rows);
        row_end = padded ? begin + value : joined_end(tokens.kind, begin, value, tokens.rows);
        tiles += tiles_of_rows(row_end - begin, tokens.tile_m);
        table->row_end[i] = row_end;
        table->tile_end[i] = tiles;
    }
    int32_t before = tiles;
    for (int distance = 1; distance < WARP_THREADS; distance *= 2) {
        const int32_t other = __shfl_up_sync(~0u, before, distance);
        before += lane >= distance ? other : 0;
    }
    before -= tiles;
    for (int32_t i = first; i < end; i++) {
        table->tile_end[i] += before;
    }
}

/* A tile along the rows of A. */
struct expert_tile {
    int32_t expert, first_row, row_end; /* row_end: the row after the expert's last one */
};

static __device__ __forceinline__ int32_t expert_tiles(const struct expert_tokens &tokens,
                                                       const struct expert_table *table) {
    return table->tile_end[tokens.experts - 1];
}

/* The expert of tile number `number`, below expert_tiles(): the first one whose tile_end is above it. */
static __device__ __forceinline__ int32_t expert_of_tile(const struct expert_tokens &tokens,
                                                         const struct expert_table *table, int32_t number) {
    int32_t low = 0, high = tokens.experts - 1;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (table->tile_end[middle] > number) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static __device__ __forceinline__ struct expert_tile
find_expert_tile(const struct expert_tokens &tokens, const struct expert_table *table, int32_t number) {
    const int32_t expert = expert_of_tile(tokens, table, number),
                  before = expert == 0 ? 0 : table->tile_end[expert - 1];
    return {expert, first_row_of(tokens, table, expert) + (number - before) * tokens.tile_m,
            table->row_end[expert]};
}

/* The same if an expert's rows are shared out evenly, in units of unit_rows rows, which divide tile_m; row_end
 * is the row after the tile's last one. */
template <int unit_rows>
static __device__ __forceinline__ struct expert_tile
find_balanced_tile(const struct expert_tokens &tokens, const struct expert_table *table, int32_t number) {
    const int32_t expert = expert_of_tile(tokens, table, number),
                  before = expert == 0 ? 0 : table->tile_end[expert - 1],
                  tiles = table->tile_end[expert] - before, index = number - before,
                  first_row = first_row_of(tokens, table, expert), end = table->row_end[expert],
                  units = tiles_of_rows(end - first_row, unit_rows), each = units / tiles,
                  longer = units % tiles, first = each * index + min(index, longer),
                  own = each + (index < longer ? 1 : 0);
    return {expert, first_row + first * unit_rows, min(end, first_row + (first + own) * unit_rows)};
}

/* ---- rows of scale factors ---- */

/* The word of a row's first four scale factors: those of its first step of 64 elements of K. */
static __device__ __forceinline__ const uint8_t *first_scale_word(const struct expert_scales &scales,
                                                                  int32_t steps_k, int32_t batch, int32_t row) {
    return scales.from + batch * scales.batch_bytes +
           scale_offset(scales.layout, row, 0, steps_k * SCALE_TILE_GROUPS);
}

/* Bytes from a row's word to that of the next step. */
static __device__ __forceinline__ int32_t scale_step_bytes(const struct expert_scales &scales) {
    return scales.layout == CUSTOM_KERNEL_SCALES_ROWS ? SCALE_WORD_BYTES : SCALE_TILE_BYTES;
}

/* The word of row `row` of A, or of the expert's last row if that comes before. */
static __device__ __forceinline__ const uint8_t *first_token_word(const struct expert_scales &scales,
                                                                  int32_t steps_k,
                                                                  const struct expert_tokens &tokens,
                                                                  const struct expert_tile &tile, int32_t row) {
    const int32_t batch = tokens.kind == CUSTOM_KERNEL_TOKENS_PADDED ? tile.expert : 0;
    return first_scale_word(scales, steps_k, batch, min(row, tile.row_end - 1) - batch * tokens.rows);
}

/* The row of gate (`up` 0) or up (1) of a column of C in a tensor with both, so many rows of each in turn. */
static __device__ __forceinline__ int32_t interleaved_row(int32_t interleave, int32_t column, int32_t up) {
    return (column / interleave * 2 + up) * interleave + column % interleave;
}

#endif
