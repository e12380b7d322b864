/* Which asynchronous operations of a launch the mode delays, where not all of them: the others take effect at
 * once.  For the search for the smallest set of delays (interp/shrink.c); its launches have one worker. */
#ifndef SIM_MACHINE_SCHEDULE_H
#define SIM_MACHINE_SCHEDULE_H

#include "machine.h"

/* An operation, by what is the same in every schedule. */
struct issue {
    uint64_t cluster;
    uint32_t warp, pc;   /* warp: of the cluster */
    uint32_t occurrence; /* from 1: how often the warp had issued the instruction; 0: a free place of a table */
};

struct issue_table {
    struct issue *entry;
    uint32_t *value;
    uint32_t count, room; /* room: a power of two, more than half of it free */
};

struct scheduled {
    struct issue issue;
    const char *kind;
    uint32_t cta[3], warp; /* warp: of the CTA */
    int lane;
    bool delayed;
    /* When its result was written. */
    enum { SCHEDULED_NEVER, SCHEDULED_IDLE, SCHEDULED_BETWEEN, SCHEDULED_ENDED } written;
    /* The warp that had run last, and where it stood; UINT32_MAX: none, nowhere. */
    uint32_t last_cta[3], last_warp, last_pc;
};

struct schedule {
    bool all;   /* everything is delayed */
    bool turns; /* in mode random, warps take turns at random */
    struct issue_table delayed;
    struct issue_table issued; /* by cluster, warp and pc: how often so far */
    struct scheduled *list;    /* in the order of issue */
    uint32_t count, room;
    uint32_t most;   /* operations of a launch that are listed; those beyond are not delayed */
    uint64_t issues; /* listed or not */
    /* Called with each new finding; true ends the launch. */
    bool (*found)(void *context, const struct sim_finding *finding);
    void *context;
};

/* The operation is in the list from now on: 1 + its place, or 0.  `prompt`: it is not delayed. */
uint32_t schedule_issued(struct schedule *schedule, const struct run *run, const char *kind, int lane,
                         bool *prompt);
void schedule_written(const struct cluster *cluster, uint32_t scheduled);
/* False: no memory. */
bool schedule_delay(struct schedule *schedule, const struct issue *issue);
/* Nothing is delayed, nothing was issued. */
void schedule_clear(struct schedule *schedule);
void schedule_free(struct schedule *schedule);

#endif
