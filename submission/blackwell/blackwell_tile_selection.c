#include "blackwell_tile_selection.h"

#include <stddef.h>

#include "../core/backend.h"

const struct blackwell_costs blackwell_costs = {
    /* predicted:b200 (simulator/calibration/calls).  An SM loads some 59 bytes a cycle of 1.85 GHz from L2,
       which explains the published kernels' times.  A step of both products takes N cycles.  A wave's start and
       end are a guess. */
    .load_ps_per_kb = 9340,
    .mma_ps_per_column = 540,
    .wave_ps = 2500000,
    /* measured:H200.  The time of the Hopper kernel's DSMEM reduction for each KB that leaves a CTA, barriers
     * included: the rate between a B200's SMs is not published.  Split tiles would pay only at less than half
     * of it. */
    .reduction_ps_per_kb = 56250,
    /* published:B200.  8 TB/s. */
    .memory_ps_per_kb = 128,
    /* predicted:b200 (shark_tank/data/simulated_shared_k.json).  By tiles for few rows: how much longer a call
     * takes with each more CTA that has sums of the same outputs, and with each more part that a warp stores.
     */
    .sharer_ps = 500000,
    .part_ps = 460000,
};

/* A cluster of CTAs runs within one GPC: a B200 is assumed to have 8 of them, with 18 SMs each. */
#define SMS_OF_TPC          2 /* HW: a pair of CTAs fits into each */
#define PROCESSING_CLUSTERS 8

const struct blackwell_config blackwell_configs[BLACKWELL_TILES] = {BLACKWELL_CONFIGS(GPU_TILE_ROW)};

const struct blackwell_config blackwell_grouped_configs[BLACKWELL_GROUPED_TILES] = {
    BLACKWELL_GROUPED_CONFIGS(BLACKWELL_COPYING_TILE)};

const struct blackwell_config blackwell_transposed_configs[BLACKWELL_TRANSPOSED_TILES] = {
    BLACKWELL_TRANSPOSED_CONFIGS(BLACKWELL_COPYING_TILE)};

const struct blackwell_config blackwell_few_rows_configs[BLACKWELL_FEW_ROWS_TILES] = {
    BLACKWELL_FEW_ROWS_CONFIGS(BLACKWELL_COPYING_TILE)};

int64_t blackwell_ctas(const struct blackwell_config *config, int64_t m, int64_t n, int64_t l) {
    return round_up(ceil_div(m, TILE_M), config->ctas) * config->split_k * ceil_div(n, config->tile_n) * l;
}

int blackwell_clusters_at_once(const struct blackwell_config *config, int sms) {
    int cluster = config->ctas * config->split_k;
    return cluster <= SMS_OF_TPC ? sms / cluster : PROCESSING_CLUSTERS * (sms / PROCESSING_CLUSTERS / cluster);
}

/* Time of a stage of K: its copies or its products, whichever takes longer. */
static int64_t stage_ps(const struct blackwell_config *config) {
    int64_t load = STAGE_BYTES(config->tile_n, config->ctas) / 1024 * blackwell_costs.load_ps_per_kb;
    int64_t multiply = (int64_t)STAGE_STEPS * config->tile_n * blackwell_costs.mma_ps_per_column;
    return load > multiply ? load : multiply;
}

int64_t blackwell_tile_cost_ps(const struct blackwell_config *config, int64_t m, int64_t n, int64_t k,
                               int64_t l, int clusters_at_once) {
    const struct blackwell_costs *costs = &blackwell_costs;
    int64_t cluster = (int64_t)config->ctas * config->split_k, stages_k = ceil_div(k, STAGE_K);
    if (stages_k < config->split_k || clusters_at_once < 1) {
        return INT64_MAX;
    }
    /* A CTA sends all of its fp32 accumulators but its own share, and receives as many. */
    int64_t accumulators_kb = 2 * (int64_t)TILE_M * config->tile_n * (int64_t)sizeof(float) / 1024;
    int64_t reduction = accumulators_kb * (config->split_k - 1) / config->split_k * costs->reduction_ps_per_kb;
    return ceil_div(blackwell_ctas(config, m, n, l) / cluster, clusters_at_once) *
           (ceil_div(stages_k, config->split_k) * stage_ps(config) + costs->wave_ps + reduction);
}

int blackwell_select_tile(int64_t m, int64_t n, int64_t k, int64_t l, const int *clusters_at_once) {
    int best = 0;
    for (int i = 1; i < BLACKWELL_TILES; i++) {
        if (blackwell_tile_cost_ps(&blackwell_configs[i], m, n, k, l, clusters_at_once[i]) <
            blackwell_tile_cost_ps(&blackwell_configs[best], m, n, k, l, clusters_at_once[best])) {
            best = i;
        }
    }
    return best;
}

const char *blackwell_tile_name(int index) {
    return GPU_TILE_NAME(blackwell_configs, index);
}

int64_t blackwell_grouped_tile_ps(const struct blackwell_config *config, int64_t k) {
    return ceil_div(k, STAGE_K) * stage_ps(config) + blackwell_costs.wave_ps;
}

#define PAIR_COLUMNS 16 /* HW: the columns of a pair's MMA are a multiple (PTX ISA, tcgen05.mma) */

int64_t blackwell_transposed_columns(const struct blackwell_config *config, int64_t m) {
    const int64_t most = 2 * (int64_t)config->tile_n;
    return m < most ? round_up(m, PAIR_COLUMNS) : most;
}

/* Time of a stage of a transposed tile. */
static int64_t transposed_stage_ps(const struct blackwell_config *config, int64_t columns) {
    const int64_t bytes = STAGE_BYTES(config->tile_n, config->ctas) -
                          (2 * config->tile_n - columns) / config->ctas * STAGE_FP4_BYTES;
    const int64_t load = bytes * blackwell_costs.load_ps_per_kb / 1024;
    const int64_t multiply = STAGE_STEPS * columns / 2 * blackwell_costs.mma_ps_per_column;
    return load > multiply ? load : multiply;
}

/* Time in which CTAs with sums of the same outputs exchange them. */
static int64_t exchange_ps(int64_t columns, int64_t sharers) {
    const int64_t sums_kb = TILE_M * columns * (int64_t)sizeof(float) / 1024;
    return sums_kb * (sharers - 1) / sharers * blackwell_costs.reduction_ps_per_kb;
}

int64_t blackwell_transposed_tile_ps(const struct blackwell_config *config, int64_t m, int64_t k) {
    const int64_t columns = blackwell_transposed_columns(config, m);
    const int64_t stages = ceil_div(ceil_div(k, STAGE_K), config->split_k);
    return stages * transposed_stage_ps(config, columns) + blackwell_costs.wave_ps +
           exchange_ps(columns, config->split_k);
}

int64_t blackwell_few_rows_columns(const struct blackwell_config *config, bool gated) {
    return (int64_t)TILE_M * (gated ? 1 : config->ctas);
}

/* predicted:b200 (shark_tank/data/simulated_shared_k.json).  A shorter K gains nothing from shares, and more
 * rows cost these tiles more than the others. */
#define FEW_ROWS_OF_K 32

bool blackwell_has_few_rows(int64_t m, int64_t k) {
    return m <= MOST_FEW_ROWS && m * FEW_ROWS_OF_K <= k;
}

int64_t blackwell_few_rows_cost_ps(const struct blackwell_config *config, bool gated, int64_t m, int64_t n,
                                   int64_t k, int clusters_at_once) {
    const struct blackwell_costs *costs = &blackwell_costs;
    if (clusters_at_once < 1) {
        return INT64_MAX;
    }
    const int64_t columns = blackwell_transposed_columns(config, m), sharers = blackwell_sharers(config, gated);
    const int64_t clusters =
        ceil_div(n, blackwell_few_rows_columns(config, gated)) * ceil_div(m, 2 * config->tile_n);
    const int64_t at_once = clusters < clusters_at_once ? clusters : clusters_at_once;
    const int64_t weights_kb = (TILE_M * STAGE_FP4_BYTES + STAGE_SCALE_BYTES) / 1024; /* that a CTA loads */
    const int64_t memory = at_once * config->ctas * config->split_k * weights_kb * costs->memory_ps_per_kb;
    const int64_t stage = transposed_stage_ps(config, columns);
    const int64_t parts = ceil_div(columns, TRANSPOSED_COLUMNS * COLUMN_GROUPS * sharers);
    return ceil_div(clusters, clusters_at_once) *
           (ceil_div(ceil_div(k, STAGE_K), config->split_k) * (stage > memory ? stage : memory) +
            costs->wave_ps + exchange_ps(columns, sharers) + (sharers - 1) * costs->sharer_ps +
            (parts - 1) * costs->part_ps);
}

const char *blackwell_transposed_tile_name(int index) {
    return GPU_TILE_NAME(blackwell_transposed_configs, index);
}

const char *blackwell_grouped_tile_name(int index) {
    return GPU_TILE_NAME(blackwell_grouped_configs, index);
}
