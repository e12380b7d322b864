/* The dequantization of A by a kernel before the GEMM, or during it: ahead of a persistent GEMM's tiles
 * (hopper_config.h). */
#ifndef HOPPER_AHEAD_H
#define HOPPER_AHEAD_H

#include <stdbool.h>

#include "hopper_operands.h"

struct ahead {
    int64_t tiles_m, row_tiles, band_tiles;
    int64_t parts, parts_before, items;
    int64_t counters; /* words of scratch memory; 0 if another kernel dequantizes all of A before */
};

/* True if CTAs of a launch take one tile after another; then the launch counts its tiles in 32 bits. */
bool hopper_is_persistent(const struct hopper_config *config, int64_t tiles, int sms);

/* A band is the rows of tiles that run at once; if these span several batches, it is whole batches, because one
 * launch has to dequantize the first band's first parts.  A single row of tiles is left to a kernel, which
 * takes no longer for all of it than for those parts (measured:H200). */
struct ahead hopper_plan_ahead(const struct problem *problem, const struct hopper_config *config,
                               int64_t tiles_n, int sms, int64_t stages_k);

/* Dequantizes all of A, or the first parts of the first band if `ahead` has items; tile_m: of the tile that was
 * planned.  Zeroes `count` words.  In the same launch, permutes scale factors (gpu_complete_permute_scales),
 * unless `scales` is NULL. */
int32_t hopper_launch_dequantize(const struct problem *problem, int64_t stages_k, const struct ahead *ahead,
                                 int64_t tile_m, uint8_t *a_fp16, uint32_t *words, int64_t count,
                                 const struct permute_scales_params *scales);

/* Adds the items of `ahead`, if there are any, to a persistent GEMM's parameters. */
void hopper_schedule_ahead(const struct problem *problem, int64_t stages_k, const struct ahead *ahead,
                           uint8_t *a_fp16, uint32_t *counters, struct hopper_persistent_params *params);

#endif
