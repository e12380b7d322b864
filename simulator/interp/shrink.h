/* What a search for the smallest set of delays gives. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "machine/schedule.h"
#include "sim.h"

struct module;

#define UNTIL_BYTES 192

/* What a call has found, with what its texts belong to. */
struct shrinking {
    struct sim_shrunk shown;
    struct sim_delay *delays;
    char (*until)[UNTIL_BYTES];
    struct sim *last; /* of the last run: the finding's texts */
};

/* The table of delays, of the run of `schedule`, which was that of the smallest set; `turns`: that warps take
 * turns at random is one of them.  False: no memory. */
bool shrinking_describe(struct shrinking *to, const struct module *module, const struct schedule *schedule,
                        bool turns);

#endif
