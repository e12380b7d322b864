#include "gpu_schedule.h"

#include <string.h>

enum {
    MANY_WAVES = 16,  /* with more waves, the last one's end hardly matters */
    MOST_UNITS = 512, /* most units that are simulated one by one */
};

/* Units that are free at the same time. */
struct level {
    int64_t ps, units;
};

/* Inserts a level in order of time, or adds its units to the level of that time. */
static int add_level(struct level *levels, int count, struct level level) {
    int at = count;
    while (at > 0 && levels[at - 1].ps > level.ps) {
        at--;
    }
    if (at > 0 && levels[at - 1].ps == level.ps) {
        levels[at - 1].units += level.units;
        return count;
    }
    memmove(&levels[at + 1], &levels[at], (size_t)(count - at) * sizeof *levels);
    levels[at] = level;
    return count + 1;
}

int64_t gpu_schedule_ps(const struct tile_class *classes, int64_t count, int units) {
    struct level levels[MOST_UNITS + 1];
    int64_t tiles = 0;
    double work = 0;
    units = units < MOST_UNITS ? units : MOST_UNITS;
    for (int64_t i = 0; i < count; i++) {
        tiles += classes[i].tiles;
        work += (double)classes[i].tiles * (double)classes[i].tile_ps;
    }
    if (tiles > (int64_t)MANY_WAVES * units) {
        return (int64_t)(work / units) + classes[0].tile_ps / 2;
    }
    int used = 1;
    levels[0] = (struct level){0, units};
    for (int64_t i = 0; i < count; i++) {
        for (int64_t remaining = classes[i].tiles; remaining > 0;) {
            struct level first = levels[0];
            int64_t taken = first.units < remaining ? first.units : remaining;
            levels[0].units -= taken;
            if (levels[0].units == 0) {
                memmove(&levels[0], &levels[1], (size_t)--used * sizeof *levels);
            }
            used = add_level(levels, used, (struct level){first.ps + classes[i].tile_ps, taken});
            remaining -= taken;
        }
    }
    return levels[used - 1].ps;
}
