#include "plan.h"

#include <string.h>

/* A stage of a tile in picoseconds, and the exchange of sums between two CTAs: fitted to time stamps in the
 * kernels on an H200.  Products, a feature's expansion and a token's copies share the SM; with few tokens the
 * expansion alone takes longer. */
#define PRODUCT_PS   44
#define FEATURE_PS   1840
#define TOKEN_PS     1290
#define EXPANSION_PS 7000
#define EXCHANGE_PS  3600000

#define CONFIG(name, warpgroups, slabs, tokens, stages, splits)                                                \
    {#name, warpgroups, slabs, tokens, stages, splits},
const struct hopper_config hopper_configs[] = {HOPPER_CONFIGS(CONFIG)};
const int hopper_config_count = sizeof hopper_configs / sizeof *hopper_configs;

int64_t hopper_plan_cost(const struct hopper_config *config, int64_t m, int64_t n, int64_t stages_k, int64_t l,
                         int sms) {
    int64_t ctas = ceil_div(n, tile_features(config)) * ceil_div(m, config->tile_tokens) * l * config->splits;
    int64_t features = tile_features(config), tokens = config->tile_tokens;
    int64_t stage = features * tokens * PRODUCT_PS + features * FEATURE_PS + tokens * TOKEN_PS;
    stage = stage > features * EXPANSION_PS ? stage : features * EXPANSION_PS;
    return ceil_div(ctas, sms / config->splits * config->splits) *
           (ceil_div(stages_k, config->splits) * stage + (config->splits > 1 ? EXCHANGE_PS : 0));
}

int hopper_choose(int64_t m, int64_t n, int64_t stages_k, int64_t l, int sms) {
    int best = 0;
    int64_t best_cost = INT64_MAX, best_tile = 0;
    for (int i = 0; i < hopper_config_count; i++) {
        int64_t cost = hopper_plan_cost(&hopper_configs[i], m, n, stages_k, l, sms);
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
