#include "plan.h"

#include <string.h>

/* Expanding a weight costs as much as using it for this many tokens: fitted to an H200's times of the four
 * benchmark shapes with every configuration. */
#define EXPANSION_TOKENS 80

/* What helping costs, in stages: a helper for each tile (writing its sums, filling the ring again), and a
 * tile's own CTA (waiting for them, adding them); and what has to remain as gain to be worth 64 KB of traffic a
 * tile. */
#define HELPER_TILE_COST 1
#define HELPED_COST      2
#define LEAST_GAIN       2

#define CONFIG(name, warpgroups, slabs, tokens, stages) {#name, warpgroups, slabs, tokens, stages},
const struct hopper_config hopper_configs[] = {HOPPER_CONFIGS(CONFIG)};
const int hopper_config_count = sizeof hopper_configs / sizeof *hopper_configs;

static int64_t ceil_div(int64_t x, int64_t y) {
    return x / y + (x % y != 0);
}

int64_t hopper_plan_cost(const struct hopper_config *config, int64_t m, int64_t n, int64_t l, int sms) {
    int64_t ctas = ceil_div(n, tile_features(config)) * ceil_div(m, config->tile_tokens) * l;
    return ceil_div(ctas, sms) * tile_features(config) * (config->tile_tokens + EXPANSION_TOKENS);
}

int hopper_choose(int64_t m, int64_t n, int64_t l, int sms) {
    int best = 0;
    int64_t best_cost = INT64_MAX, best_tile = 0;
    for (int i = 0; i < hopper_config_count; i++) {
        int64_t cost = hopper_plan_cost(&hopper_configs[i], m, n, l, sms);
        int64_t tile = (int64_t)tile_features(&hopper_configs[i]) * hopper_configs[i].tile_tokens;
        if (cost < best_cost || (cost == best_cost && tile > best_tile)) {
            best = i;
            best_cost = cost;
            best_tile = tile;
        }
    }
    return best;
}

struct helping hopper_helping(int64_t tiles, int64_t stages_k, int sms) {
    struct helping none = {0, 0, 0};
    if (tiles >= sms) {
        return none;
    }
    /* Both finish together: stages_k - stages + HELPED_COST == tiles of a helper * (stages + HELPER_TILE_COST).
     */
    int64_t tiles_of_helper = ceil_div(tiles, sms - tiles);
    int64_t stages = (stages_k + HELPED_COST - tiles_of_helper * HELPER_TILE_COST) / (tiles_of_helper + 1);
    if (stages < HELPED_COST + LEAST_GAIN) {
        return none;
    }
    return (struct helping){(int32_t)ceil_div(tiles, tiles_of_helper), (int32_t)tiles_of_helper,
                            (int32_t)stages};
}

int hopper_config_named(const char *name) {
    for (int i = 0; i < hopper_config_count; i++) {
        if (strcmp(name, hopper_configs[i].name) == 0) {
            return i;
        }
    }
    return -1;
}
