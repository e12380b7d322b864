#include "blackwell_experts_selection.h"

#include <stddef.h>

#include "../../gpu/experts/gpu_experts_selection.h"

const struct blackwell_config blackwell_experts_tiles[BLACKWELL_EXPERTS_TILES_COUNT] = {
    BLACKWELL_EXPERTS_TILES(BLACKWELL_COPYING_TILE)};

int32_t blackwell_experts_tile_rows(const struct blackwell_config *tile) {
    return 2 * tile->tile_n;
}

int blackwell_select_experts_tile(int64_t rows, int64_t experts) {
    const struct expert_rows likely = gpu_expert_rows(rows, experts);
    int tile = 0;
    while (tile + 1 < BLACKWELL_EXPERTS_TILES_COUNT &&
           blackwell_experts_tile_rows(&blackwell_experts_tiles[tile]) < likely.mean + 2 * likely.deviation) {
        tile++;
    }
    return tile;
}

const char *blackwell_experts_tile_name(int index) {
    return GPU_TILE_NAME(blackwell_experts_tiles, index);
}
