/* What the host sides of the grouped GEMMs share: limits, and the time of a list of tiles. */
#ifndef GPU_GROUPED_H
#define GPU_GROUPED_H

#include "../core/backend.h"

/* Refuses groups that are too large for a GPU backend, before anything is counted in tiles or picoseconds:
 * sizes, or scale tiles of a tensor, that coordinates of 32 bits do not reach, or so many rows in all. */
int32_t gpu_check_groups(const char *backend, const struct problem *groups, int64_t count);

/* Refuses a list of more tiles than a grid has CTAs along x. */
int32_t gpu_check_ctas(const char *backend, int64_t ctas);

/* Tiles of one group: how many, and the predicted time of each. */
struct tile_class {
    int64_t tiles, tile_ps;
};

/* The predicted time in picoseconds of `count` classes of tiles on so many units (SMs, or clusters), in that
 * order: each tile goes to the unit that is free first.  Where there are many times more tiles than units:
 * their sum shared equally, and half of the first. */
int64_t gpu_schedule_ps(const struct tile_class *classes, int64_t count, int units);

#endif
