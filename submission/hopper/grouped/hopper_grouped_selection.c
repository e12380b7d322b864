#include "hopper_grouped_selection.h"

#include <stddef.h>

#include "../../core/backend.h"
#include "../hopper_tile_selection.h"

enum { LEAST_SHARED_STAGES = 4 };

const struct hopper_grouped_tile hopper_grouped_tiles[HOPPER_GROUPED_TILES_COUNT] = {
    HOPPER_GROUPED_TILES(GPU_TILE_ROW)};

struct hopper_grouped_cut hopper_cut_group(int64_t m, int64_t n, int64_t k, int largest) {
    struct hopper_grouped_cut cut = {
        .tiles_m = ceil_div(m, hopper_grouped_tiles[largest].tile_m),
        .stages_k = ceil_div(k, STAGE_K),
        .parts = 1,
    };
    int64_t rows = ceil_div(m, cut.tiles_m);
    while (hopper_grouped_tiles[cut.tile].tile_m < rows) {
        cut.tile++;
    }
    cut.all.tiles = cut.tiles_m * ceil_div(n, GROUPED_COLUMNS);
    /* A tile is as much work as a tile of the dual GEMM with half as many columns. */
    cut.all.tile_ps =
        cut.stages_k * hopper_stage_ps(GROUPED_COLUMNS / 2, hopper_grouped_tiles[cut.tile].tile_m) +
        hopper_costs.wave_ps;
    return cut;
}

bool hopper_share_k(struct hopper_grouped_cut *cut) {
    if (cut->parts > 1 || cut->stages_k < LEAST_SHARED_STAGES) {
        return false;
    }
    const int64_t stage = hopper_stage_ps(GROUPED_COLUMNS / 2, hopper_grouped_tiles[cut->tile].tile_m);
    cut->parts = 2;
    cut->all.tiles *= cut->parts;
    cut->all.tile_ps =
        ceil_div(cut->stages_k, cut->parts) * stage + hopper_costs.wave_ps + hopper_costs.reduction_ps;
    return true;
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

int64_t hopper_grouped_sum_bytes(int index) {
    return (int64_t)hopper_grouped_tiles[index].tile_m * GROUPED_COLUMNS * (int64_t)sizeof(float);
}

const char *hopper_grouped_tile_name(int index) {
    return GPU_TILE_NAME(hopper_grouped_tiles, index);
}
