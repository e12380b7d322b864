/* Runs of one launch, each on memory as it was at first, with what a schedule delays. */
#ifndef SIM_TRIAL_H
#define SIM_TRIAL_H

#include "machine/schedule.h"

struct trials {
    struct sim *sim;
    struct sim_module module;
    const char *kernel;
    const struct sim_launch_attributes *attributes;
    struct schedule schedule;
    uint64_t run_limit; /* of instructions of a warp in a run */
    uint8_t **saved;    /* memory, by allocation */
    struct sim *last;   /* what the last run left: findings and counters */
};

/* Keeps the memory.  False: there is none for that. */
bool trials_begin(struct trials *trials);
/* A run by trials->schedule, on one worker; memory stays as it leaves it.  sim_launch's status; sim_message of
 * the last run, where there is one, says more. */
int trials_run(struct trials *trials);
/* Puts memory back; `last` stays. */
void trials_end(struct trials *trials);
void trial_free(struct sim *trial);

#endif
