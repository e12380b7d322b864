#include "plan.h"

#include <string.h>

/* Expanding a weight costs as much as using it for this many tokens: fitted to an H200's times of the four
 * benchmark shapes with every configuration. */
#define EXPANSION_TOKENS 80

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

int hopper_config_named(const char *name) {
    for (int i = 0; i < hopper_config_count; i++) {
        if (strcmp(name, hopper_configs[i].name) == 0) {
            return i;
        }
    }
    return -1;
}
