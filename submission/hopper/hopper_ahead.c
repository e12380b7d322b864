#include "hopper_ahead.h"

bool hopper_is_persistent(const struct hopper_config *config, int64_t tiles, int sms) {
    return config->persistent && tiles <= INT32_MAX - sms;
}

struct ahead hopper_plan_ahead(const struct problem *problem, const struct hopper_config *config,
                               int64_t tiles_n, int sms, int64_t stages_k) {
    const int64_t tiles_m = ceil_div(problem->m, config->tile_m), row_tiles = tiles_m * problem->l,
                  at_a_time = ceil_div(sms, tiles_n),
                  band_tiles = at_a_time < tiles_m ? at_a_time : round_up(at_a_time, tiles_m),
                  bands = ceil_div(row_tiles, band_tiles), parts = ceil_div(stages_k, A_PART_STAGES),
                  parts_before = parts < A_PARTS_BEFORE ? parts : A_PARTS_BEFORE,
                  items = (bands * parts - parts_before) * band_tiles * (config->tile_m / A_ITEM_ROWS),
                  most = tiles_n * row_tiles <= sms ? A_BAND_TILES_ALONE : A_BAND_TILES;
    if (!hopper_is_persistent(config, tiles_n * row_tiles, sms) || row_tiles == 1 || items <= 0 ||
        items > INT32_MAX || (band_tiles < row_tiles ? band_tiles : row_tiles) > most) {
        return (struct ahead){0};
    }
    return (struct ahead){
        tiles_m, row_tiles, band_tiles, parts, parts_before, items, 1 + bands * band_tiles * parts};
}

int32_t hopper_launch_dequantize(const struct problem *problem, int64_t stages_k, const struct ahead *ahead,
                                 int64_t tile_m, uint8_t *a_fp16, uint32_t *counters) {
    struct dequantize_params params = hopper_dequantize_params(problem, stages_k, a_fp16);
    int64_t units = params.row_units, rows = problem->m, batches = problem->l;
    uint32_t count = (uint32_t)ahead->counters;
    void *arguments[] = {&params, &counters, &count};
    if (ahead->counters > 0) {
        const int64_t first_units = ahead->parts_before * A_PART_STAGES * DEQUANTIZE_UNITS;
        units = first_units < units ? first_units : units;
        if (ahead->band_tiles < ahead->tiles_m) {
            rows = ahead->band_tiles * tile_m;
            batches = 1;
        } else if (ahead->band_tiles < ahead->row_tiles) {
            batches = ahead->band_tiles / ahead->tiles_m;
        }
    }
    int64_t threads = hopper_dequantize_threads(units);
    struct launch launch = {
        .kernel = ahead->counters > 0 ? hopper_dequantize_first_kernel() : hopper_dequantize_kernel(),
        .grid = {rows, ceil_div(units, threads), batches},
        .threads = threads,
        .cluster = 1,
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    return gpu_launch(problem, &launch, arguments);
}

void hopper_schedule_ahead(const struct problem *problem, int64_t stages_k, const struct ahead *ahead,
                           uint8_t *a_fp16, uint32_t *counters, struct hopper_persistent_params *params) {
    if (ahead->counters > 0) {
        params->row_tiles = (int32_t)ahead->row_tiles;
        params->band_tiles = (int32_t)ahead->band_tiles;
        params->parts = (int32_t)ahead->parts;
        params->parts_before = (int32_t)ahead->parts_before;
        params->items = (uint32_t)ahead->items;
        params->claimed = counters;
        params->ready = counters + 1;
        params->a = hopper_dequantize_params(problem, stages_k, a_fp16);
    }
}
