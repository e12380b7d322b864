/* The queue of wgmmas at an SM's tensor cores. */
#ifndef SIM_CLOCK_WGMMA_TIME_H
#define SIM_CLOCK_WGMMA_TIME_H

#include "clock/chip.h"

struct run;
struct cta;
struct timing;
struct sm_time;

/* MMAs with A in registers that have not ended, in the order in which they run. */
#define MMA_QUEUE 64
struct mma_queue {
    struct queued_mma {
        uint64_t turn;             /* its number, for time_mma_due */
        const void *group;         /* its warpgroup's first warp */
        ticks start, length, done; /* done: from its start to its results */
    } mma[MMA_QUEUE];
    uint32_t count;
    uint64_t turns;           /* numbers given out */
    ticks before, start, end; /* the last run without a pause; before: the end of the run before it */
};

/* The warp has issued an MMA that other warps of its warpgroup have not reached. */
void time_mma_early(struct run *run);
/* Books the running wgmma; returns when its results are there, unless another MMA is put before it.  *turn: its
 * number for time_mma_due; unchanged if nothing can delay it. */
ticks time_wgmma(struct run *run, uint64_t *turn);
/* Returns when the results of an MMA are there, as far as known; 0: they are, or there is no such MMA. */
ticks time_mma_due(const struct timing *timing, const struct cta *cta, uint64_t turn);
/* If an MMA with A in registers runs at `at`: when it and those right behind it end; otherwise 0. */
ticks time_mma_runs(const struct sm_time *sm, ticks at);

#endif
