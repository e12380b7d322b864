#include "hopper_experts_selection.h"

#include <stddef.h>

#include "../../core/backend.h"

const struct hopper_experts_tile hopper_experts_tiles[HOPPER_EXPERTS_TILES_COUNT] = {
    HOPPER_EXPERTS_TILES(GPU_TILE_ROW)};

/* A stage costs as much as its products, or as the dequantization of its B: the products of so many rows. */
enum { LEAST_ROWS = 64, DEVIATIONS = 2, STEPS = 4 };

static int64_t square_root(int64_t x) {
    int64_t root = 0;
    while ((root + 1) * (root + 1) <= x) {
        root++;
    }
    return root;
}

/* Work of an expert with `mean` rows on average, in rows of A, for counts up to two standard deviations away.
 */
static int64_t work_of(const struct hopper_experts_tile *tile, int64_t mean, int64_t deviation) {
    const int64_t row_work = tile->tile_m < LEAST_ROWS ? LEAST_ROWS : tile->tile_m;
    int64_t tiles = 0;
    for (int i = -DEVIATIONS * STEPS; i <= DEVIATIONS * STEPS; i++) {
        const int64_t rows = mean + deviation * i / STEPS;
        tiles += rows > 0 ? ceil_div(rows, tile->tile_m) : 0;
    }
    return tiles * row_work;
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
