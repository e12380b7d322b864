#include "geforce_tile_selection.h"

#include <stddef.h>

#include "../core/backend.h"

const struct geforce_costs geforce_costs = {
    /* published: 4,096 FLOP a cycle and SM with fp32 sums on an RTX 5090 (Neroued/ninfer, pull request 160). */
    .macs_per_cycle = 2048,
    /* Guesses: no such chip has run the kernel. */
    .load_bytes_per_cycle = 32,
    .tile_cycles = 1000,
};

const struct geforce_config geforce_configs[GEFORCE_TILES] = {GEFORCE_CONFIGS(GPU_TILE_ROW)};
const struct geforce_config geforce_grouped_configs[GEFORCE_GROUPED_TILES] = {
    GEFORCE_GROUPED_CONFIGS(GPU_TILE_ROW)};

int64_t geforce_tiles(const struct geforce_config *config, int64_t m, int64_t n, int64_t l) {
    return ceil_div(m, config->tile_m) * ceil_div(n, config->tile_n) * l;
}

static int64_t stage_cycles(const struct geforce_config *config) {
    const int64_t products = 2;
    int64_t load = STAGE_BYTES(config->tile_m, config->tile_n) / geforce_costs.load_bytes_per_cycle;
    int64_t multiply = products * config->tile_m * config->tile_n * STAGE_K / geforce_costs.macs_per_cycle;
    return load > multiply ? load : multiply;
}

static int64_t tile_cycles(const struct geforce_config *config, int64_t k) {
    return ceil_div(k, STAGE_K) * stage_cycles(config) + geforce_costs.tile_cycles;
}

int64_t geforce_tile_cost(const struct geforce_config *config, int64_t m, int64_t n, int64_t k, int64_t l,
                          int sms) {
    int64_t tiles_an_sm = ceil_div(geforce_tiles(config, m, n, l), sms);
    return tiles_an_sm * tile_cycles(config, k);
}

int geforce_select_tile(int64_t m, int64_t n, int64_t k, int64_t l, int sms) {
    int best = 0;
    for (int i = 1; i < GEFORCE_TILES; i++) {
        if (geforce_tile_cost(&geforce_configs[i], m, n, k, l, sms) <
            geforce_tile_cost(&geforce_configs[best], m, n, k, l, sms)) {
            best = i;
        }
    }
    return best;
}

const char *geforce_tile_name(int index) {
    return GPU_TILE_NAME(geforce_configs, index);
}

/* One product of twice the columns is as much work as two products. */
int64_t geforce_grouped_tile_cycles(const struct geforce_config *config, int64_t k) {
    return tile_cycles(config, k);
}

const char *geforce_grouped_tile_name(int index) {
    return GPU_TILE_NAME(geforce_grouped_configs, index);
}
