#include "hopper_ahead.h"

#include "../gpu/gpu_scales.h"

bool hopper_is_persistent(const struct hopper_config *config, int64_t tiles, int sms) {
    return config->sharing == TILE_AFTER_TILE && tiles <= INT32_MAX - sms;
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

/* A launch's threads may be more than dequantize the first parts' units, all of which would write. */
_Static_assert(A_PARTS_BEFORE * A_PART_STAGES * DEQUANTIZE_UNITS >= PERMUTE_SCALES_THREADS,
               "a thread must not dequantize more than the first parts");

/* Both kernels' work in one launch: each takes the host 4 us (measured:H200).  *fits is false, and
 * nothing is launched, if the CTAs are too many for one grid. */
static int32_t launch_both(const struct problem *problem, const struct launch *dequantize,
                           struct hopper_prepare_params *params, bool *fits) {
    const int64_t tile_rows = gpu_complete_permute_scales(problem, &params->scales),
                  ctas_k = ceil_div(params->scales.tiles_k, PERMUTE_SCALES_CTA_TILES), most = INT32_MAX;
    int64_t of_a, of_scales;
    *fits = !__builtin_mul_overflow(dequantize->grid[0] * dequantize->grid[1], dequantize->grid[2], &of_a) &&
            !__builtin_mul_overflow(ctas_k * tile_rows, problem->l * params->scales.count, &of_scales) &&
            of_a <= most && of_scales <= most - of_a;
    if (!*fits) {
        return CUSTOM_KERNEL_OK;
    }
    params->rows = (uint32_t)dequantize->grid[0];
    params->parts = (uint32_t)dequantize->grid[1];
    params->a_ctas = (uint32_t)of_a;
    params->scale_ctas_k = (uint32_t)ctas_k;
    params->scale_tile_rows = (uint32_t)tile_rows;
    struct launch launch = {
        .kernel = hopper_prepare_kernel(),
        .grid = {of_a + of_scales, 1, 1},
        .threads = dequantize->threads > PERMUTE_SCALES_THREADS ? dequantize->threads : PERMUTE_SCALES_THREADS,
        .cluster = 1,
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    void *arguments[] = {params};
    return gpu_launch(problem, &launch, arguments);
}

int32_t hopper_launch_dequantize(const struct problem *problem, int64_t stages_k, const struct ahead *ahead,
                                 int64_t tile_m, uint8_t *a_fp16, uint32_t *words, int64_t count,
                                 const struct permute_scales_params *scales) {
    struct hopper_prepare_params params = {
        .a = hopper_dequantize_params(problem, stages_k, a_fp16),
        .counters = words,
        .count = (uint32_t)count,
    };
    int64_t units = params.a.row_units, rows = problem->m, batches = problem->l;
    void *arguments[] = {&params.a, &params.counters, &params.count};
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
        .kernel = count > 0 ? hopper_dequantize_first_kernel() : hopper_dequantize_kernel(),
        .grid = {rows, ceil_div(units, threads), batches},
        .threads = threads,
        .cluster = 1,
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    if (scales != NULL) {
        bool fits;
        params.scales = *scales;
        RETURN_IF_FAILED(launch_both(problem, &launch, &params, &fits));
        if (fits) {
            return CUSTOM_KERNEL_OK;
        }
        RETURN_IF_FAILED(
            gpu_launch_permute_scales(problem, hopper_permute_scales_kernel(), *scales, HOPPER_PDL_VARIABLE));
    }
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
