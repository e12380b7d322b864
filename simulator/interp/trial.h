/* Repeated runs of one launch, each on the memory of the beginning and with the delays of a schedule. */
#ifndef SIM_TRIAL_H
#define SIM_TRIAL_H

#include "machine/schedule.h"

struct trials {
    struct sim *sim;
    struct sim_module module;
    const char *kernel;
    const struct sim_launch_attributes *attributes;
    struct schedule schedule;
    uint64_t run_limit; /* most instructions of a warp in a run */
    uint8_t **saved;    /* contents of each allocation at the beginning */
    struct sim *last;   /* simulator of the last run: its findings and counters */
};

/* Saves the memory contents. False: out of memory. */
bool trials_begin(struct trials *trials);
/* Runs the launch by trials->schedule, on one worker, and leaves its results in memory. Returns sim_launch's
 * status; sim_message(trials->last) says more. */
int trials_run(struct trials *trials);
/* Restores the memory contents; keeps `last`. */
void trials_end(struct trials *trials);

#endif
