#include "grouped_selection.h"

#include <stddef.h>

#include "../core/backend.h"
#include "tile_selection.h"

#define TILE(name, tile_m, stages) {#name, tile_m, stages},
const struct hopper_grouped_tile hopper_grouped_tiles[HOPPER_GROUPED_TILES_COUNT] = {
    HOPPER_GROUPED_TILES(TILE)};

struct hopper_grouped_cut hopper_cut_group(int64_t m, int64_t n, int64_t k, int largest) {
    struct hopper_grouped_cut cut = {.tiles_m = ceil_div(m, hopper_grouped_tiles[largest].tile_m)};
    int64_t rows = ceil_div(m, cut.tiles_m);
    while (hopper_grouped_tiles[cut.tile].tile_m < rows) {
        cut.tile++;
    }
    cut.all.tiles = cut.tiles_m * ceil_div(n, GROUPED_COLUMNS);
    /* A tile's work is that of the dual GEMM's with half as many columns. */
    cut.all.tile_ps =
        ceil_div(k, STAGE_K) * hopper_stage_ps(GROUPED_COLUMNS / 2, hopper_grouped_tiles[cut.tile].tile_m) +
        hopper_costs.wave_ps;
    return cut;
}

int hopper_grouped_shared_bytes(void) {
    int most = 0;
    for (int i = 0; i < HOPPER_GROUPED_TILES_COUNT; i++) {
        int bytes =
            SHARED_BYTES(GROUPED_COLUMNS / 2, hopper_grouped_tiles[i].tile_m, hopper_grouped_tiles[i].stages);
        most = bytes > most ? bytes : most;
    }
    return most;
}

const char *hopper_grouped_tile_name(int index) {
    return index >= 0 && index < HOPPER_GROUPED_TILES_COUNT ? hopper_grouped_tiles[index].name : NULL;
}
