#include "grouped_selection.h"

#include <stddef.h>
#include <string.h>

#include "../core/backend.h"
#include "tile_selection.h"

enum {
    MANY_WAVES = 16, /* from here on the end of the last wave decides little */
    MOST_SMS = 512,  /* that are told apart */
};

#define TILE(name, tile_m, stages) {#name, tile_m, stages},
const struct hopper_grouped_tile hopper_grouped_tiles[HOPPER_GROUPED_TILES_COUNT] = {
    HOPPER_GROUPED_TILES(TILE)};

struct hopper_grouped_cut hopper_cut_group(int64_t m, int64_t n, int64_t k, int largest) {
    struct hopper_grouped_cut cut = {.tiles_m = ceil_div(m, hopper_grouped_tiles[largest].tile_m)};
    int64_t rows = ceil_div(m, cut.tiles_m);
    while (hopper_grouped_tiles[cut.tile].tile_m < rows) {
        cut.tile++;
    }
    cut.tiles = cut.tiles_m * ceil_div(n, GROUPED_COLUMNS);
    /* A tile's work is that of the dual GEMM's with half as many columns. */
    cut.tile_ps =
        ceil_div(k, STAGE_K) * hopper_stage_ps(GROUPED_COLUMNS / 2, hopper_grouped_tiles[cut.tile].tile_m) +
        hopper_costs.wave_ps;
    return cut;
}

/* SMs that are free at the same time. */
struct level {
    int64_t ps, sms;
};

/* Keeps levels in order of time, none twice. */
static int add_level(struct level *levels, int count, struct level level) {
    int at = count;
    while (at > 0 && levels[at - 1].ps > level.ps) {
        at--;
    }
    if (at > 0 && levels[at - 1].ps == level.ps) {
        levels[at - 1].sms += level.sms;
        return count;
    }
    memmove(&levels[at + 1], &levels[at], (size_t)(count - at) * sizeof *levels);
    levels[at] = level;
    return count + 1;
}

int64_t hopper_grouped_ps(const struct hopper_grouped_cut *cuts, int64_t groups, int sms) {
    struct level levels[MOST_SMS + 1];
    int64_t tiles = 0;
    double work = 0;
    sms = sms < MOST_SMS ? sms : MOST_SMS;
    for (int64_t i = 0; i < groups; i++) {
        tiles += cuts[i].tiles;
        work += (double)cuts[i].tiles * (double)cuts[i].tile_ps;
    }
    if (tiles > (int64_t)MANY_WAVES * sms) {
        return (int64_t)(work / sms) + cuts[0].tile_ps / 2;
    }
    int count = 1;
    levels[0] = (struct level){0, sms};
    for (int64_t i = 0; i < groups; i++) {
        for (int64_t remaining = cuts[i].tiles; remaining > 0;) {
            struct level first = levels[0];
            int64_t taken = first.sms < remaining ? first.sms : remaining;
            levels[0].sms -= taken;
            if (levels[0].sms == 0) {
                memmove(&levels[0], &levels[1], (size_t)--count * sizeof *levels);
            }
            count = add_level(levels, count, (struct level){first.ps + cuts[i].tile_ps, taken});
            remaining -= taken;
        }
    }
    return levels[count - 1].ps;
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
