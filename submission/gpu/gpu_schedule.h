/* The predicted time of a list of tiles on a chip.  Host only, pure. */
#ifndef GPU_SCHEDULE_H
#define GPU_SCHEDULE_H

#include <stdint.h>

/* Tiles of one group: how many, and the predicted time of each. */
struct tile_class {
    int64_t tiles, tile_ps;
};

/* The predicted time in picoseconds of `count` classes of tiles on so many units (SMs, or clusters), in that
 * order: each tile goes to the unit that is free first.  Where there are many times more tiles than units:
 * their sum shared equally, and half of the first. */
int64_t gpu_schedule_ps(const struct tile_class *classes, int64_t count, int units);

#endif
