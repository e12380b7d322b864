#include "plan.h"

#include <string.h>

/* predicted:b200.  An SM takes some 48 bytes a cycle of 1.85 GHz from L2: what the published kernels' times
 * come to, once 3 us of launch and drain are taken off.  A step of both products takes N cycles. */
#define LOAD_PS_PER_KB  11500
#define MMA_PS_PER_STEP 540 /* for each feature */
#define WAVE_PS         3000000

#define CONFIG(name, features, stages, ctas, tail) {#name, features, stages, ctas, tail},
const struct blackwell_config blackwell_configs[] = {BLACKWELL_CONFIGS(CONFIG)};
const int blackwell_config_count = sizeof blackwell_configs / sizeof *blackwell_configs;

int64_t blackwell_ctas(const struct blackwell_config *config, int64_t m, int64_t n, int64_t l) {
    return round_up(ceil_div(m, TILE_TOKENS), config->ctas) * ceil_div(n, config->features) * l;
}

int64_t blackwell_plan_cost(const struct blackwell_config *config, int64_t m, int64_t n, int64_t k, int64_t l,
                            int sms) {
    int64_t ctas = blackwell_ctas(config, m, n, l), at_once = sms / config->ctas * config->ctas;
    int64_t load = STAGE_BYTES_OF(config->features, config->ctas) / 1024 * LOAD_PS_PER_KB;
    int64_t multiply = (int64_t)STAGE_STEPS * config->features * MMA_PS_PER_STEP;
    int64_t stage = load > multiply ? load : multiply;
    return ceil_div(ctas, at_once > 0 ? at_once : config->ctas) * (ceil_div(k, STAGE_K) * stage + WAVE_PS);
}

int blackwell_choose(int64_t m, int64_t n, int64_t k, int64_t l, int sms) {
    int best = 0;
    for (int i = 1; i < blackwell_config_count; i++) {
        if (blackwell_plan_cost(&blackwell_configs[i], m, n, k, l, sms) <
            blackwell_plan_cost(&blackwell_configs[best], m, n, k, l, sms)) {
            best = i;
        }
    }
    return best;
}

int blackwell_config_named(const char *name) {
    for (int i = 0; i < blackwell_config_count; i++) {
        if (strcmp(name, blackwell_configs[i].name) == 0) {
            return i;
        }
    }
    return -1;
}
