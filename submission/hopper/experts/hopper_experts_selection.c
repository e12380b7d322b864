#include "hopper_experts_selection.h"

#include <stdbool.h>
#include <stddef.h>

#include "../../core/backend.h"
#include "../../gpu/experts/gpu_experts_selection.h"

const struct hopper_experts_tile hopper_experts_tiles[HOPPER_EXPERTS_TILES_COUNT] = {
    HOPPER_EXPERTS_TILES(GPU_TILE_ROW)};

/* A stage costs as much as its products, or as the dequantization of its B: the products of so many rows. */
enum { LEAST_ROWS = 64 };

/* Large tiles take less time than the others from so many rows an expert on, and the larger one from so many
 * (measured:H200). */
enum { LARGE_MEAN_ROWS = 32, LARGEST_MEAN_ROWS = 96 };

static bool large_tile_suits(const struct hopper_experts_tile *tile, int64_t mean, int64_t experts,
                             int64_t pairs, int sms) {
    const int64_t tiles =
        experts * ceil_div(mean, tile->tile_m) * ceil_div(pairs, EXPERTS_TILE_N(tile->m_blocks));
    return mean >= (tile->tile_m > 96 ? LARGEST_MEAN_ROWS : LARGE_MEAN_ROWS) && tiles >= sms;
}

int hopper_select_experts_tile(int64_t rows, int64_t experts, int64_t pairs, int sms) {
    const struct expert_rows likely = gpu_expert_rows(rows, experts);
    int best = 0;
    for (int i = 1; i < HOPPER_EXPERTS_TILES_COUNT; i++) {
        const struct hopper_experts_tile *tile = &hopper_experts_tiles[i];
        if (tile->m_blocks > 1 ? large_tile_suits(tile, likely.mean, experts, pairs, sms)
                               : gpu_expert_work(likely, tile->tile_m, LEAST_ROWS) <
                                     gpu_expert_work(likely, hopper_experts_tiles[best].tile_m, LEAST_ROWS)) {
            best = i;
        }
    }
    return best;
}

const char *hopper_experts_tile_name(int index) {
    return GPU_TILE_NAME(hopper_experts_tiles, index);
}
