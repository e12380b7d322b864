/* Selects the asynchronous operations of a launch that the mode delays; the others take effect at once.  Used
 * by the search for the smallest set of delays (interp/shrink.c), whose launches have one worker. */
#ifndef SIM_MACHINE_SCHEDULE_H
#define SIM_MACHINE_SCHEDULE_H

#include "machine.h"
#include "numbers.h"

/* Identifies an operation in every schedule of the launch. */
struct issue {
    uint64_t cluster;
    uint32_t warp, pc;   /* warp: number in the cluster */
    uint32_t occurrence; /* from 1: counts the warp's issues of the instruction */
};

struct scheduled {
    struct issue issue;
    const char *kind;
    uint32_t cta[3], warp; /* warp: index in the CTA */
    int lane;
    bool delayed;
    /* When its result was written. */
    enum { SCHEDULED_NEVER, SCHEDULED_IDLE, SCHEDULED_BETWEEN, SCHEDULED_ENDED } written;
    /* The warp that had run last at that time, and its pc; UINT32_MAX: none. */
    uint32_t last_cta[3], last_warp, last_pc;
};

struct schedule {
    bool all;               /* delay everything */
    bool turns;             /* in mode random: warps take turns at random */
    struct numbers delayed; /* by issue: 1 */
    struct numbers issued;  /* by cluster, warp and pc: number of issues so far */
    struct scheduled *list; /* in the order of issue */
    uint32_t count, room;
    uint32_t most;   /* limit of the list; operations beyond it are not delayed */
    uint64_t issues; /* operations issued, listed or not */
    /* Called with each new finding; true ends the launch. */
    bool (*found)(void *context, const struct sim_finding *finding);
    void *context;
};

/* Adds an operation to the list; returns 1 + its index, or 0 if it is not there.  *prompt: not delayed. */
uint32_t schedule_issued(struct schedule *schedule, const struct run *run, const char *kind, int lane,
                         bool *prompt);
/* Call when the result of a listed operation is written. */
void schedule_written(const struct cluster *cluster, uint32_t scheduled);
/* Delays one more operation.  False: no memory. */
bool schedule_delay(struct schedule *schedule, const struct issue *issue);
/* Resets it: nothing is delayed, nothing was issued. */
void schedule_clear(struct schedule *schedule);
void schedule_free(struct schedule *schedule);

#endif
