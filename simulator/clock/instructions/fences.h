/* Fences of the whole GPU: by an instruction, before one that releases, before a word that others wait for. */
#ifndef SIM_CLOCK_FENCES_H
#define SIM_CLOCK_FENCES_H

#include "clock/timing.h"

/* The warp's fence begins then; when it is over, but for the copies that it waits for.  takes: where it waits
 * for nothing; behind_copies: whether it waits for any. */
ticks fence_begin(const struct warp *warp, ticks at, ticks takes, bool behind_copies);
/* Until when a fence that begins then orders the warp's stores to shared memory for asynchronous operations. */
ticks fence_stored(const struct warp *warp, ticks at);
/* When the split's next instruction may go on behind the warp's fence, ready otherwise. */
ticks time_fenced(const struct warp *warp, const struct split *split, ticks ready);
/* What stands before the instruction: the ordering of what the warp did before a release. */
ticks time_before(const struct warp *warp, const struct split *split, ticks ready);

#endif
