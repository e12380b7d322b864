/* The predicted time of a list of tiles on a chip.  Host only, pure. */
#ifndef GPU_SCHEDULE_H
#define GPU_SCHEDULE_H

#include <stdint.h>

/* Tiles of one kind: how many, and the predicted time of each. */
struct tile_class {
    int64_t tiles, tile_ps;
};

/* The predicted time in picoseconds of `count` classes of tiles on `units` units (SMs, or clusters) in that
 * order: each tile goes to the unit that is free first.  If there are many times more tiles than units, it is
 * an equal share of the work plus half of a tile of the first class. */
int64_t gpu_schedule_ps(const struct tile_class *classes, int64_t count, int units);

#endif
