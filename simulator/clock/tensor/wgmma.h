/* The MMAs of warpgroups at an SM's tensor cores. */
#ifndef SIM_CLOCK_TENSOR_WGMMA_H
#define SIM_CLOCK_TENSOR_WGMMA_H

#include "clock/chip.h"

struct run;
struct cta;
struct timing;
struct sm_time;

/* MMAs with A in registers that have not ended, in the order of their turns; when the last ones run without a
 * pause, and until when those before did. */
#define MMA_QUEUE 64
struct mma_queue {
    struct queued_mma {
        uint64_t turn;             /* a number of its own */
        const void *group;         /* its warpgroup's first warp */
        ticks start, length, done; /* done: from its start until its results are there */
    } mma[MMA_QUEUE];
    uint32_t count;
    uint64_t turns; /* that there have been */
    ticks before, start, end;
};

/* The warp has issued an MMA that others of its warpgroup have not reached. */
void time_mma_early(struct run *run);
/* When the MMA's results are there, unless others come before it; turn: what to ask with
 * then, 0 where nothing can put it off. */
ticks time_wgmma(struct run *run, uint64_t *turn);
/* When the results of the MMA of that turn are there, as far as is known; 0: it has been, or there is none. */
ticks time_mma_due(const struct timing *timing, const struct cta *cta, uint64_t turn);
/* Until when MMAs with A in registers run without a pause that run then; 0 where none does. */
ticks time_mma_runs(const struct sm_time *sm, ticks at);

#endif
