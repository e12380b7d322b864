#include "hopper_experts_selection.h"

#include <stddef.h>

#include "../../gpu/experts/gpu_experts_selection.h"

const struct hopper_experts_tile hopper_experts_tiles[HOPPER_EXPERTS_TILES_COUNT] = {
    HOPPER_EXPERTS_TILES(GPU_TILE_ROW)};

/* A stage costs as much as its products, or as the dequantization of its B: the products of so many rows. */
enum { LEAST_ROWS = 64 };

int hopper_select_experts_tile(int64_t rows, int64_t experts) {
    const struct expert_rows likely = gpu_expert_rows(rows, experts);
    int best = 0;
    for (int i = 1; i < HOPPER_EXPERTS_TILES_COUNT; i++) {
        if (gpu_expert_work(likely, hopper_experts_tiles[i].tile_m, LEAST_ROWS) <
            gpu_expert_work(likely, hopper_experts_tiles[best].tile_m, LEAST_ROWS)) {
            best = i;
        }
    }
    return best;
}

const char *hopper_experts_tile_name(int index) {
    return GPU_TILE_NAME(hopper_experts_tiles, index);
}
