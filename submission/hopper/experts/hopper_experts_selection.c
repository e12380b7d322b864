#include "hopper_experts_selection.h"

#include <stddef.h>

#include "../../core/backend.h"
#include "../hopper_tile_selection.h"

const struct hopper_experts_tile hopper_experts_tiles[HOPPER_EXPERTS_TILES_COUNT] = {
    HOPPER_EXPERTS_TILES(GPU_TILE_ROW)};

enum { DEVIATIONS = 2, STEPS = 4 };

static int64_t square_root(int64_t x) {
    int64_t root = 0;
    while ((root + 1) * (root + 1) <= x) {
        root++;
    }
    return root;
}

/* Time of an expert's stages with `mean` rows on average, for counts up to two standard deviations away: a
 * stage takes as long as the dual GEMM's with as many rows of B (measured:H200). */
static int64_t work_of(const struct hopper_experts_tile *tile, int64_t mean, int64_t deviation) {
    int64_t tiles = 0;
    for (int i = -DEVIATIONS * STEPS; i <= DEVIATIONS * STEPS; i++) {
        const int64_t rows = mean + deviation * i / STEPS;
        tiles += rows > 0 ? ceil_div(rows, tile->tile_m) : 0;
    }
    return tiles * hopper_stage_ps(EXPERTS_TILE_N, tile->tile_m);
}

int hopper_select_experts_tile(int64_t rows, int64_t experts) {
    const int64_t mean = ceil_div(rows, experts), deviation = square_root(mean);
    int best = 0;
    for (int i = 1; i < HOPPER_EXPERTS_TILES_COUNT; i++) {
        if (work_of(&hopper_experts_tiles[i], mean, deviation) <
            work_of(&hopper_experts_tiles[best], mean, deviation)) {
            best = i;
        }
    }
    return best;
}

const char *hopper_experts_tile_name(int index) {
    return GPU_TILE_NAME(hopper_experts_tiles, index);
}
