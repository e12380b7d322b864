/* Result of a search for the smallest set of delays (sim_shrink). */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "machine/schedule.h"
#include "sim.h"

struct module;

#define UNTIL_BYTES 192

/* The public result and the memory that its texts live in. */
struct shrinking {
    struct sim_shrunk shown;
    struct sim_delay *delays;
    char (*until)[UNTIL_BYTES];
    struct sim *last; /* the simulator of the first run, which owns the finding's texts */
};

/* Fills the table of delays from `schedule`, the run with the smallest set. `turns`: the random order of warps
 * is part of the set. False: out of memory. */
bool shrinking_describe(struct shrinking *to, const struct module *module, const struct schedule *schedule,
                        bool turns);
void shrinking_free(struct shrinking *shrinking);

#endif
