#include "geforce_experts_selection.h"

#include <stddef.h>

#include "../../gpu/experts/gpu_experts_selection.h"

const struct geforce_experts_tile geforce_experts_tiles[GEFORCE_EXPERTS_TILES_COUNT] = {
    GEFORCE_EXPERTS_TILES(GPU_TILE_ROW)};

/* A tile takes as long as its copies of B, or as its products: those of so many rows. */
enum { LEAST_ROWS = 32 };

int geforce_select_experts_tile(int64_t rows, int64_t experts) {
    const struct expert_rows likely = gpu_expert_rows(rows, experts);
    int best = 0;
    for (int i = 1; i < GEFORCE_EXPERTS_TILES_COUNT; i++) {
        if (gpu_expert_work(likely, geforce_experts_tiles[i].tile_m, LEAST_ROWS) <
            gpu_expert_work(likely, geforce_experts_tiles[best].tile_m, LEAST_ROWS)) {
            best = i;
        }
    }
    return best;
}

const char *geforce_experts_tile_name(int index) {
    return GPU_TILE_NAME(geforce_experts_tiles, index);
}
