#include "plan.h"

#include <string.h>

#define CONFIG(name, warpgroups, slabs, tokens, cluster, stages, k_groups, buffers)                            \
    {#name, warpgroups, slabs, tokens, cluster, stages, k_groups, buffers},
const struct hopper_config hopper_configs[] = {HOPPER_CONFIGS(CONFIG)};
const int hopper_config_count = sizeof hopper_configs / sizeof *hopper_configs;

static int64_t ceil_div(int64_t x, int64_t y) {
    return x / y + (x % y != 0);
}

int64_t hopper_plan_cost(const struct hopper_config *config, int64_t m, int64_t n, int64_t l, int sms) {
    int64_t features = ceil_div(ceil_div(n, tile_features(config)), config->cluster) * config->cluster;
    int64_t ctas = features * ceil_div(m, config->tile_tokens) * l;
    int64_t at_a_time = sms / config->cluster * config->cluster;
    return ceil_div(ctas, at_a_time) * tile_features(config) * config->tile_tokens;
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
