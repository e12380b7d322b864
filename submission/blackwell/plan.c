#include "plan.h"

#include <string.h>

/* predicted:b200 (scripts/account.py).  An SM takes some 59 bytes a cycle of 1.85 GHz from L2, which explains
 * the published kernels' times.  A step of both products takes N cycles.  The start and end of a wave are a
 * guess. */
#define LOAD_PS_PER_KB  9340
#define MMA_PS_PER_STEP 540 /* for each feature */
#define WAVE_PS         2500000
/* measured:H200.  What the Hopper kernel's exchange of sums takes for each KB that leaves a CTA, barriers
 * included: nobody has published the rate between a B200's SMs.  Split tiles pay at less than half of it. */
#define EXCHANGE_PS_PER_KB 56250

/* A cluster of CTAs lies in one of the chip's processing clusters: taken to be 8 of 18 SMs on a B200. */
#define SMS_OF_TPC          2 /* HW: a pair of CTAs fits into each */
#define PROCESSING_CLUSTERS 8

#define CONFIG(name, features, stages, ctas, tail, splits) {#name, features, stages, ctas, tail, splits},
const struct blackwell_config blackwell_configs[] = {BLACKWELL_CONFIGS(CONFIG)};
const int blackwell_config_count = sizeof blackwell_configs / sizeof *blackwell_configs;

int64_t blackwell_ctas(const struct blackwell_config *config, int64_t m, int64_t n, int64_t l) {
    return round_up(ceil_div(m, TILE_TOKENS), config->ctas) * config->splits * ceil_div(n, config->features) *
           l;
}

int blackwell_clusters_at_once(const struct blackwell_config *config, int sms) {
    int cluster = config->ctas * config->splits;
    return cluster <= SMS_OF_TPC ? sms / cluster : PROCESSING_CLUSTERS * (sms / PROCESSING_CLUSTERS / cluster);
}

int64_t blackwell_plan_cost(const struct blackwell_config *config, int64_t m, int64_t n, int64_t k, int64_t l,
                            int clusters_at_once) {
    int64_t cluster = (int64_t)config->ctas * config->splits, stages_k = ceil_div(k, STAGE_K);
    if (stages_k < config->splits || clusters_at_once < 1) {
        return INT64_MAX;
    }
    int64_t load = STAGE_BYTES_OF(config->features, config->ctas) / 1024 * LOAD_PS_PER_KB;
    int64_t multiply = (int64_t)STAGE_STEPS * config->features * MMA_PS_PER_STEP;
    int64_t stage = load > multiply ? load : multiply;
    /* Of a CTA's fp32 sums of both products all but its own share leave it, and as much comes in. */
    int64_t sums_kb = 2 * (int64_t)TILE_TOKENS * config->features * (int64_t)sizeof(float) / 1024;
    int64_t exchange = sums_kb * (config->splits - 1) / config->splits * EXCHANGE_PS_PER_KB;
    return ceil_div(blackwell_ctas(config, m, n, l) / cluster, clusters_at_once) *
           (ceil_div(stages_k, config->splits) * stage + WAVE_PS + exchange);
}

int blackwell_choose(int64_t m, int64_t n, int64_t k, int64_t l, const int *clusters_at_once) {
    int best = 0;
    for (int i = 1; i < blackwell_config_count; i++) {
        if (blackwell_plan_cost(&blackwell_configs[i], m, n, k, l, clusters_at_once[i]) <
            blackwell_plan_cost(&blackwell_configs[best], m, n, k, l, clusters_at_once[best])) {
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
